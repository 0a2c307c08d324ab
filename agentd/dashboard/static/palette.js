// Colours: of the Okabe–Ito palette, which people with any colour vision tell apart. They are kept in page.css, for
// light and dark, and read from there for the canvas.

export const MOST_COLOURS = 8;

let colours = {};

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  colours = {
    arms: Array.from({ length: MOST_COLOURS }, (_, place) => value(`--c${place}`)),
    none: value("--none"), ink: value("--ink"), paper: value("--card"), edge: value("--edge"), lit: value("--lit"),
    cut: value("--bad"), warn: value("--warn"), chosen: value("--accent"), soft: value("--soft"), liar: value("--liar"),
  };
  return colours;
}

export const palette = () => colours;
export const armColour = (arm) => (arm < 0 ? colours.none : colours.arms[arm % MOST_COLOURS]);

const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

/** Let a button choose the theme; `changed` is called when colours are others. */
export function themeButton(button, changed) {
  const kept = (() => { try { return localStorage.getItem("agentd-theme"); } catch { return null; } })();
  let theme = THEMES.includes(kept) ? kept : "auto";
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = NAMES[theme];
    button.setAttribute("aria-label", `Colour theme: ${theme === "auto" ? "as the system has it" : theme}`);
    readColours();
    changed();
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try { localStorage.setItem("agentd-theme", theme); } catch { /* then it is not kept */ }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}
