// A finished run, played again: a slider over the moments of its story, and a speed.

import { byId, shown } from "./dom.js";
import { RunState } from "./state.js";

const MOMENTS_PER_S = 8;

export class Player {
  constructor(shownAt) {
    this.onMoment = shownAt;
    this.moments = [];
    this.place = 0;
    this.told = 0;
    this.playing = false;
    byId("play").addEventListener("click", () => this.toggle());
    byId("slider").addEventListener("input", (event) => { this.stop(); this.seek(Number(event.target.value)); });
  }

  load(agents, story, rounds) {
    this.stop();
    const state = new RunState(agents);
    this.rounds = rounds;
    this.number = -1;
    this.moments = story.map((news) => { state.fold(news); return state.snapshot(); });
    const slider = byId("slider");
    slider.max = Math.max(0, this.moments.length - 1);
    byId("player").hidden = !this.moments.length;
    if (this.moments.length) this.seek(this.moments.length - 1);
  }

  clear() {
    this.stop();
    this.moments = [];
    byId("player").hidden = true;
  }

  seek(place) {
    this.place = Math.min(this.moments.length - 1, Math.max(0, place));
    const number = Math.floor(this.place), moment = this.moments[number];
    if (!moment || number === this.number) return;
    const said = `round ${shown(moment.round)} of ${shown(this.rounds)}`;
    byId("slider").value = number;
    byId("slider").setAttribute("aria-valuetext", said);
    byId("moment").textContent = said;
    this.number = number;
    this.onMoment(moment, this.playing);
  }

  toggle() {
    if (this.playing) return this.stop();
    if (this.place >= this.moments.length - 1) this.seek(0);
    this.playing = true;
    this.name();
    let before = performance.now();
    const step = (now) => {
      if (!this.playing) return;
      this.seek(this.place + ((now - before) / 1000) * MOMENTS_PER_S * Number(byId("speed").value));
      before = now;
      if (this.place >= this.moments.length - 1) this.end();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  /** Show the last moment in full. */
  end() {
    this.stop();
    this.number = -1;
    this.seek(this.moments.length - 1);
  }

  stop() {
    this.playing = false;
    this.name();
  }

  name() {
    byId("play").textContent = this.playing ? "❚❚" : "▶";
    byId("play").setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }
}
