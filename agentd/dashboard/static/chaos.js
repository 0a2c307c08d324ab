// Buttons that break things, for who came with the token in the address. It stays in the fragment, which browsers send
// to nobody, and leaves this page in one header only.

import { byId, element, replace } from "./dom.js";

const ON_AGENTS = [["kill", "Kill"], ["restart", "Restart"], ["pause", "Pause"], ["resume", "Resume"], ["partition", "Cut off"], ["lie", "Make it a liar"], ["honest", "Make it honest"]];

export const token = () => new URLSearchParams(location.hash.slice(1)).get("token");

export class ChaosPanel {
  constructor(run) {
    this.run = run;
    this.selection = [];
    const button = ([verb, name]) => element("button", { type: "button", class: verb === "kill" ? "danger" : null, "data-do": verb, click: () => this.act(verb) }, name);
    const amount = (verb, name, field, unit, value, most) => {
      const input = element("input", { type: "number", min: 0, max: most, value, id: `amount-${verb}`, "aria-label": `${name} in ${unit}` });
      const told = () => ({ [field]: Number(input.value) / (field === "rate" ? 100 : 1) });
      return element("span", { class: "pair" }, element("button", { type: "button", "data-do": verb, click: () => this.act(verb, told()) }, name), input, unit);
    };
    replace(byId("actions"), ...ON_AGENTS.map(button), amount("delay", "Delay", "ms", "ms", 200, 60000), amount("loss", "Loss", "rate", "%", 20, 100),
      element("button", { type: "button", "data-do": "heal", click: () => this.act("heal") }, "Heal all links"));
    byId("chaos-card").hidden = false;
    this.select([]);
  }

  select(agents) {
    this.selection = agents;
    const few = agents.slice(0, 12).join(", ") + (agents.length > 12 ? ", …" : "");
    byId("chosen").textContent = agents.length ? `Selected: ${few}` : "Nobody is selected: click an agent, or draw a lasso";
    for (const button of byId("actions").querySelectorAll("button")) button.disabled = button.dataset.do !== "heal" && !agents.length;
  }

  async act(verb, more = {}) {
    const wanted = verb === "heal" ? { do: verb } : { do: verb, agents: this.selection, ...more };
    const said = byId("chaos-said");
    said.textContent = "…";
    try {
      const answer = await fetch(`/api/runs/${this.run()}/chaos`, {
        method: "POST", body: JSON.stringify(wanted), headers: { "Content-Type": "application/json", "X-Agentd-Token": token() ?? "" },
      });
      const told = await answer.json();
      said.textContent = answer.ok ? told.done.map((one) => one.what).join("; ") || "done" : told.error;
    } catch {
      said.textContent = "The dashboard does not answer any more.";
    }
  }
}
