// What the page knows of a run now. Live news and the moments of a story are folded into it by the same function.

export const MARKS = ["dead", "paused", "late", "liar", "distrusted", "disturbed", "done"];
export const MARK = Object.fromEntries(MARKS.map((name, place) => [name, 1 << place]));

export const markNames = (mask) => MARKS.filter((name) => mask & MARK[name]);

export class RunState {
  constructor(agents) {
    this.agents = agents;
    this.arm = new Int32Array(agents).fill(-1);
    this.marks = new Uint8Array(agents);
    this.messages = new Float64Array(agents);
    this.figures = {};
    this.cut = [];
    this.faults = [];
    this.about = new Map(); // what else is told of single agents
    this.sent = []; // who sent messages since the last news
    this.turned = []; // who favours another arm since
  }

  /** Take news in. */
  fold(news) {
    this.sent = news.sent ?? this.toldSent ?? [];
    this.turned = [];
    for (const [name, value] of Object.entries(news)) {
      if (name === "agents") for (const [id, told] of Object.entries(value)) this.foldAgent(Number(id), told);
      else if (name === "cut") this.cut = value;
      else if (name === "faults") this.faults = value;
      else if (name === "sent") this.toldSent = value; // a story says who sent, and says it again only when others did
      else this.figures[name] = value;
    }
  }

  foldAgent(id, told) {
    if (!(id >= 0 && id < this.agents)) return;
    if (told.arm !== undefined) {
      if (this.arm[id] >= 0 && told.arm !== this.arm[id]) this.turned.push(id);
      this.arm[id] = told.arm;
    }
    if (told.marks !== undefined) this.marks[id] = told.marks.reduce((mask, name) => mask | (MARK[name] ?? 0), 0);
    if (told.messages !== undefined) {
      if (told.messages > this.messages[id] && this.about.has(id)) this.sent.push(id); // live: who has sent more since
      this.messages[id] = told.messages;
    }
    this.about.set(id, { ...this.about.get(id), ...told });
  }

  /** What a moment of a story looks like, to come back to. */
  snapshot() {
    return { ...this.figures, cut: this.cut, arm: this.arm.slice(), marks: this.marks.slice(), turned: this.turned, sent: this.sent };
  }
}
