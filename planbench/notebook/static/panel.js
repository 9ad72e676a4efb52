/**
 * The panel of a plan: its graph, recoloured as the kernel reports, with an inspector beside it.
 *
 * A panel is shown in two ways. `render` fills the view of a widget. `initialize` fills places:
 * elements of class `pb-place-<key>` in saved HTML, which hold a picture that stays right when
 * no kernel is there. While the kernel lives the place shows the live panel over that picture,
 * also after a reload, since front ends make the models of a kernel again before any view.
 *
 * Text of plans and tools only ever becomes text: `textContent`, never markup.
 */

/** @import { AnyModel, Initialize, Render } from "@anywidget/types" */

/**
 * @typedef {{s: string, c?: string, i?: string, t?: string, b?: string, n?: string, p?: number}} NodeState
 *   status; text of the counter in the graph; items, time and bytes as text; note; share that is done
 * @typedef {{id: string, tool: string, kind: string, after: number[]}} NodeInfo
 * @typedef {{state: string, progress: string, nodes: string, elapsed: string, run_id: string | null,
 *   message: string, tone: string}} Status
 * @typedef {{code: string, message: string, severity: string, node: number | null, node_id: string | null,
 *   line: number | null, column: number | null, fix: string | null}} Issue
 * @typedef {{enabled: boolean, title: string}} Button
 * @typedef {{columns: string[], rows: string[][], n_rows: number}} Table
 * @typedef {{key: string, name: string, svg: string, graph_note: string, interactive: boolean,
 *   nodes: NodeInfo[], states: Record<string, NodeState>, status: Status, issues: Issue[],
 *   buttons: Record<string, Button>, icons: Record<string, string>}} Traits
 */

const SVG = "http://www.w3.org/2000/svg";
const SHAPE = "g.pb-node, g.pb-stage";
const LISTED = 500;
const ANSWER_MS = 2500;
const SPARE_MS = 1500;

/** What a run is called, as the state of a node that looks the same.
 * @type {Record<string, string>} */
const LIKE = {
  pending: "waiting", completed: "ok", success: "ok", failed: "error", budget_exceeded: "error", interrupted: "cancelled",
};

/** Shapes that tell the states apart without colour; they come from the kernel, as in the drawing.
 * @type {Record<string, string>} */
let shapes_of = {};

// -- elements ----------------------------------------------------------------------------------

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on...` are listeners, null leaves out
 * @param {...(Node | string | null)} children
 */
function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** @param {string} status */
function icon(status) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "pb-icon");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", shapes_of[LIKE[status] ?? status] ?? "");
  svg.append(path);
  return svg;
}

/** A class name for a status: letters only, whatever came over. @param {string} status */
const word = (status) => String(status).replace(/[^a-z]/g, "");

/** @param {string} status @param {string} [text] */
function pill(status, text = status) {
  return h("span", { class: `pb-pill pb-is-${word(status)}` }, icon(status), h("span", {}, text));
}

/** Write text only where it changed, so that screen readers hear changes alone.
 * @param {Element} node @param {string} text */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// -- the drawing, let in -----------------------------------------------------------------------

const TAGS = new Set("svg g title desc path polygon polyline ellipse circle rect line text tspan defs marker".split(" "));
const ATTRIBUTES = new Set(
  ("viewBox width height preserveAspectRatio xmlns transform id class d points x y x1 y1 x2 y2 dx dy cx cy r rx ry " +
    "fill fill-opacity stroke stroke-width stroke-opacity stroke-dasharray stroke-linecap stroke-linejoin opacity " +
    "font-family font-size font-weight font-style text-anchor dominant-baseline textLength lengthAdjust " +
    "marker-start marker-end markerWidth markerHeight refX refY orient markerUnits role tabindex").split(" "),
);

/**
 * Read a drawing and keep what a drawing needs: known elements and attributes, no reference to
 * anything outside the picture. Gives null for text that is no SVG.
 *
 * @param {string} text
 * @returns {SVGSVGElement | null}
 */
export function admit(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.localName !== "svg" || root.namespaceURI !== SVG || root.querySelector("parsererror")) return null;
  for (const node of [root, ...root.querySelectorAll("*")]) {
    if (node.namespaceURI !== SVG || !TAGS.has(node.localName)) {
      node.remove();
      continue;
    }
    for (const { name, value } of [...node.attributes]) {
      const known = ATTRIBUTES.has(name) || /^(data|aria)-[a-z-]+$/.test(name);
      const outside = /javascript:|data:|url\((?!\s*["']?#)/i.test(value);
      if (!known || outside) node.removeAttribute(name);
    }
  }
  return /** @type {any} */ (document.importNode(root, true));
}

/** The place of a node in the plan, or the name of a stage. @param {SVGGElement} shape */
function placeOf(shape) {
  return shape.dataset.node ? Number(shape.dataset.node.slice(1)) : (shape.dataset.stage ?? "");
}

// -- one view ----------------------------------------------------------------------------------

class View {
  /** @param {AnyModel<Traits>} model @param {{selected: number | null, zoom: number}} memory what is open, and how large */
  constructor(model, memory) {
    shapes_of = model.get("icons");
    this.model = model;
    this.memory = memory;
    /** Two views may have one node open: the kernel tells more until both have closed it. */
    this.id = Math.random().toString(36).slice(2);
    /** The nodes by their place, and the stages of a large plan by names such as s3.
     * @type {Map<number | string, SVGGElement>} */
    this.shapes = new Map();
    /** @type {Record<string, number>} */
    this.waits = {};
    this.name = h("span", { class: "pb-name" });
    this.run = h("span", { class: "pb-run", role: "status" });
    this.progress = h("span", { class: "pb-progress" });
    this.elapsed = h("span", { class: "pb-elapsed" });
    this.actions = h("span", { class: "pb-actions" });
    /** @type {Record<string, HTMLButtonElement>} */
    this.buttons = {};
    for (const [action, label, style] of [
      ["run", "Run", "jp-mod-accept"],
      ["resume", "Resume", "jp-mod-accept"],
      ["cancel", "Cancel", "jp-mod-warn"],
      ["validate", "Validate", ""],
    ]) {
      const button = h("button", {
        type: "button",
        class: `jp-Button jp-mod-styled ${style} pb-button pb-${action}`,
        onclick: () => this.act(action),
      }, label);
      this.buttons[action] = /** @type {HTMLButtonElement} */ (button);
      this.actions.append(button);
    }
    this.message = h("div", { class: "pb-message", role: "alert", hidden: "" });
    this.canvas = h("div", { class: "pb-canvas", role: "group", "aria-label": "Graph of the plan" });
    const tool = (label, text, step) =>
      h("button", { type: "button", class: "pb-zoom", title: label, "aria-label": label, onclick: () => this.zoom(step) }, text);
    this.tools = h("div", { class: "pb-tools" },
      tool("Zoom out", "\u2212", 0.8), tool("Fit to width", "Fit", 0), tool("Zoom in", "+", 1.25));
    this.note = h("p", { class: "pb-note", hidden: "" });
    this.inspector = h("section", { class: "pb-inspector", hidden: "", tabindex: "-1" });
    this.issues = h("section", { class: "pb-issues", "aria-label": "Issues", hidden: "" });
    this.rows = h("tbody");
    this.twin = /** @type {HTMLDetailsElement} */ (h("details", { class: "pb-twin", ontoggle: () => this.tabulate() },
      h("summary", {}, "Nodes as a table"),
      h("div", { class: "pb-scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, ...["node", "tool", "after", "status", "items", "time", "stored"].map((name) => h("th", { scope: "col" }, name)))),
        this.rows))));
    /** What had the focus last, so that it has it again when the panel moves to another place.
     * @type {any} */
    this.focused = null;
    this.root = h("div", {
      class: "pb-panel",
      onkeydown: (event) => this.key(event),
      onfocusin: (event) => { this.focused = event.target; },
      // A panel that is only moving is in its new place, with its focus, before this comes to pass.
      onfocusout: () => setTimeout(() => { if (!this.root.contains(document.activeElement)) this.focused = null; }),
    },
      h("header", { class: "pb-header" }, h("span", { class: "pb-title" }, this.name, this.run), this.progress, this.elapsed, this.actions),
      this.message,
      h("div", { class: "pb-body" },
        h("div", { class: "pb-graph" }, this.canvas, this.tools, this.note), this.inspector),
      this.issues,
      this.twin);

    /** @type {[string, (...args: any[]) => void][]} */
    this.listeners = [
      ["change:svg", () => this.draw()],
      ["change:nodes", () => this.draw()],
      ["change:name", () => this.header()],
      ["change:states", () => this.recolour()],
      ["change:status", () => this.header()],
      ["change:buttons", () => this.header()],
      ["change:issues", () => this.list()],
      ["msg:custom", (message) => this.receive(message)],
    ];
    for (const [name, callback] of this.listeners) model.on(/** @type {any} */ (name), callback);
    this.resized = new ResizeObserver(() => this.arrange());
    this.resized.observe(this.root);
    this.header();
    this.list();
    this.draw();
    if (memory.selected !== null) this.open(memory.selected);
  }

  /** @param {Element} place */
  mount(place) {
    const { focused } = this;
    place.append(this.root);
    if (focused && !this.root.contains(document.activeElement)) focused.focus({ preventScroll: true });
  }

  destroy() {
    for (const [name, callback] of this.listeners) this.model.off(/** @type {any} */ (name), callback);
    for (const timer of Object.values(this.waits)) clearTimeout(timer);
    this.resized.disconnect();
    if (this.memory.selected !== null) this.send({ type: "close", node: this.memory.selected, view: this.id });
    this.root.remove();
  }

  // -- to and from the kernel ------------------------------------------------------------------

  /** @param {Record<string, any>} message */
  send(message) {
    try {
      this.model.send(message);
    } catch {
      this.say("The kernel that held this plan is gone: run the cell again.", "warning");
    }
  }

  /** @param {string} action */
  act(action) {
    this.buttons[action].disabled = true;
    this.send({ type: action });
    this.expect(action);
  }

  /** Say so when the kernel does not answer: it runs a cell that does not await.
   * @param {string} action */
  expect(action) {
    clearTimeout(this.waits[action]);
    this.waits[action] = setTimeout(() => {
      this.header();
      this.say("The kernel has not answered yet. It is busy with a cell, or it is gone: interrupt the cell, or run it again.", "warning");
    }, ANSWER_MS);
  }

  /** @param {any} message */
  receive(message) {
    if (message.type === "delta") {
      this.recolour(message.states);
      this.header();
    } else if (message.type === "done") {
      clearTimeout(this.waits[message.action]);
      this.header();
    } else if (message.type === "details" && message.node === this.memory.selected) {
      clearTimeout(this.waits.open);
      this.inspect(message.node, message.details);
    }
  }

  // -- header, message, issues -----------------------------------------------------------------

  header() {
    const status = this.model.get("status");
    const buttons = this.model.get("buttons");
    write(this.name, this.model.get("name"));
    this.name.title = this.model.get("name");
    const spoken = [status.state, status.nodes].filter(Boolean).join(", ");
    if (this.run.getAttribute("data-said") !== spoken) {
      this.run.setAttribute("data-said", spoken);
      this.run.replaceChildren(pill(status.state), h("span", { class: "pb-hidden" }, status.nodes ? `, ${status.nodes}` : ""));
    }
    write(this.progress, status.progress);
    write(this.elapsed, status.elapsed);
    this.elapsed.title = status.run_id ? `run ${status.run_id}` : "";
    this.say(status.message, status.tone);
    this.root.classList.toggle("pb-busy", status.state === "running");
    this.actions.hidden = !this.model.get("interactive");
    for (const [action, button] of Object.entries(this.buttons)) {
      button.disabled = !buttons[action]?.enabled;
      button.title = buttons[action]?.title ?? "";
      if (action === "resume") {
        // There only when a run has calls left, and then it says how many.
        button.hidden = !buttons[action]?.label;
        write(button, buttons[action]?.label ?? "");
      }
    }
  }

  /** @param {string} text @param {string} tone */
  say(text, tone) {
    write(this.message, text);
    this.message.hidden = !text;
    this.message.className = `pb-message pb-tone-${word(tone)}`;
  }

  list() {
    const issues = this.model.get("issues");
    this.issues.hidden = !issues.length;
    const errors = issues.filter((issue) => issue.severity === "error").length;
    const warnings = issues.length - errors;
    const count = (/** @type {number} */ n, /** @type {string} */ noun) => (n ? `${n} ${noun}${n === 1 ? "" : "s"}` : "");
    this.issues.replaceChildren(
      h("h4", {}, [count(errors, "error"), count(warnings, "warning")].filter(Boolean).join(", ")),
      h("ul", {}, ...issues.slice(0, LISTED).map((issue) => this.issue(issue))),
    );
    if (issues.length > LISTED) this.issues.append(h("p", { class: "pb-more" }, `and ${issues.length - LISTED} more`));
  }

  /** @param {Issue} issue */
  issue(issue) {
    const node = issue.node;
    const place = issue.line === null ? "" : `${issue.line}:${issue.column ?? 1}`;
    const parts = [
      h("span", { class: `pb-severity pb-is-${issue.severity === "error" ? "error" : "partial"}` },
        icon(issue.severity === "error" ? "invalid" : "partial"), h("span", { class: "pb-hidden" }, issue.severity)),
      h("span", { class: "pb-at", title: place && `line ${issue.line}, column ${issue.column ?? 1}` }, place),
      h("span", { class: "pb-said" },
        issue.node_id === null ? null : h("b", {}, issue.node_id), ` ${issue.message} `,
        h("span", { class: "pb-code" }, issue.code),
        issue.fix === null ? null : h("span", { class: "pb-fix" }, issue.fix)),
    ];
    if (node === null) return h("li", {}, h("div", { class: "pb-issue" }, ...parts));
    return h("li", {}, h("button", { type: "button", class: "pb-issue", onclick: () => this.open(node, true) }, ...parts));
  }

  // -- graph -----------------------------------------------------------------------------------

  draw() {
    const text = this.model.get("svg");
    const drawing = text ? admit(text) : null;
    const note = text && !drawing ? "The drawing could not be read. The nodes are in the table below." : this.model.get("graph_note");
    write(this.note, note);
    this.note.hidden = !note;
    this.shapes.clear();
    this.canvas.replaceChildren();
    this.tools.hidden = !drawing;
    if (drawing) {
      const box = drawing.viewBox.baseVal;
      this.natural = box && box.width ? { width: box.width * (4 / 3), height: box.height * (4 / 3) } : null;
      drawing.removeAttribute("width");
      drawing.removeAttribute("height");
      for (const shape of /** @type {NodeListOf<SVGGElement>} */ (drawing.querySelectorAll(SHAPE))) {
        const place = placeOf(shape);
        this.shapes.set(place, shape);
        shape.setAttribute("tabindex", "-1");
        shape.addEventListener("click", () => this.press(place));
        shape.addEventListener("focus", () => this.rove(place));
      }
      this.canvas.append(drawing);
      this.drawing = drawing;
      this.zoom();
      this.arrange();
      const first = this.memory.selected ?? this.shapes.keys().next().value;
      if (first !== undefined) this.rove(first);
      if (this.memory.selected !== null) this.shapes.get(this.memory.selected)?.classList.add("pb-selected");
    }
    if (note && !drawing) this.twin.open = true;
    this.recolour();
  }

  /** A narrow graph leaves room for the inspector beside it. */
  arrange() {
    const width = this.natural?.width ?? Infinity;
    this.root.classList.toggle("pb-beside", width + 24 <= 0.56 * this.root.clientWidth);
  }

  /** @param {number} [step] factor; 0 fits to the width, nothing applies what is set */
  zoom(step) {
    if (!this.drawing || !this.natural) return;
    if (step === 0) this.memory.zoom = 0;
    else if (step) {
      const shown = this.drawing.getBoundingClientRect().width / this.natural.width || 1;
      this.memory.zoom = Math.min(4, Math.max(0.1, (this.memory.zoom || shown) * step));
    }
    const { width } = this.natural;
    this.drawing.style.width = this.memory.zoom ? `${width * this.memory.zoom}px` : "100%";
    this.drawing.style.maxWidth = this.memory.zoom ? "none" : `${width}px`;
    this.drawing.style.minWidth = this.memory.zoom ? "0" : `${Math.min(width, 0.4 * width)}px`;
  }

  /** @param {Record<string, NodeState>} [some] the changed ones; all without */
  recolour(some) {
    const states = this.model.get("states");
    const infos = this.model.get("nodes");
    for (const key of Object.keys(some ?? states)) {
      const place = /^\d/.test(key) ? Number(key) : key;
      const shape = this.shapes.get(place);
      const state = states[key];
      if (!shape || !state) continue;
      const selected = shape.classList.contains("pb-selected") ? " pb-selected" : "";
      shape.setAttribute("class", `${shape.classList[0]} pb-${word(state.s)}${selected}`);
      shape.querySelector(".pbn-icon")?.setAttribute("d", shapes_of[state.s] ?? "");
      const counter = shape.querySelector("text.pb-counter");
      if (counter) write(counter, state.c ?? "");
      const bar = shape.querySelector(".pb-bar");
      bar?.setAttribute("width", String(Number(bar.getAttribute("data-full")) * (state.p ?? 0)));
      if (place === this.memory.selected) this.restate(state.s);
      const info = typeof place === "number" ? infos[place] : null;
      if (info) shape.setAttribute("aria-label", [info.id, info.tool, state.s, state.i, state.t, state.b, state.n].filter(Boolean).join(", "));
    }
    this.tabulate(some);
  }

  // -- keys ------------------------------------------------------------------------------------

  /** One node is in the order of tabs, the arrows move between nodes. @param {number | string} place */
  rove(place) {
    for (const [other, shape] of this.shapes) {
      if (shape.getAttribute("tabindex") !== "-1" && other !== place) shape.setAttribute("tabindex", "-1");
    }
    this.shapes.get(place)?.setAttribute("tabindex", "0");
  }

  /** @param {number | string} place @param {boolean} [focus] */
  press(place, focus = false) {
    if (typeof place === "number") this.open(place, focus);
    else this.twin.open = true;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {Element} */ (event.target);
    const shape = /** @type {SVGGElement | null} */ (target.closest(SHAPE));
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    let used = true;
    if (event.key === "Escape" && this.memory.selected !== null) this.close(true);
    else if (shape && event.key in arrows) this.move(shape, arrows[/** @type {keyof typeof arrows} */ (event.key)]);
    else if (shape && (event.key === "Enter" || event.key === " ")) this.press(placeOf(shape), true);
    else used = false;
    // A notebook would take these keys for itself: arrows move its cells, Enter edits one.
    const own = used || (target.closest("button, summary") && (event.key === "Enter" || event.key === " "));
    if (own || (target.closest(".pb-inspector") && event.key.startsWith("Arrow"))) event.stopPropagation();
    if (used) event.preventDefault();
  }

  /** Go to the nearest node in a direction. @param {SVGGElement} from @param {number[]} direction */
  move(from, [dx, dy]) {
    const middle = (/** @type {Element} */ shape) => {
      const box = shape.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const [x, y] = middle(from);
    let best = null;
    let least = Infinity;
    for (const shape of this.shapes.values()) {
      const [a, b] = middle(shape);
      const along = (a - x) * dx + (b - y) * dy;
      const across = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (along > 1 && along + 2 * across < least) [best, least] = [shape, along + 2 * across];
    }
    best?.focus();
    best?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // -- inspector -------------------------------------------------------------------------------

  /** @param {number} index @param {boolean} [focus] */
  open(index, focus = false) {
    if (!this.model.get("nodes")[index]) return;
    const before = this.memory.selected;
    if (before !== null && before !== index) {
      this.shapes.get(before)?.classList.remove("pb-selected");
      this.send({ type: "close", node: before, view: this.id });
    }
    this.memory.selected = index;
    this.shapes.get(index)?.classList.add("pb-selected");
    this.rove(index);
    if (before !== index || this.inspector.hidden) this.inspect(index, null);
    this.send({ type: "open", node: index, view: this.id });
    this.expect("open");
    if (focus) {
      this.shapes.get(index)?.scrollIntoView({ block: "nearest", inline: "nearest" });
      this.inspector.focus({ preventScroll: true });
      this.inspector.scrollIntoView({ block: "nearest" });
    }
  }

  /** @param {boolean} [focus] */
  close(focus = false) {
    const index = this.memory.selected;
    if (index === null) return;
    clearTimeout(this.waits.open);
    this.memory.selected = null;
    this.shapes.get(index)?.classList.remove("pb-selected");
    this.inspector.hidden = true;
    this.send({ type: "close", node: index, view: this.id });
    if (focus) this.shapes.get(index)?.focus();
  }

  /** The state above the details is that of the graph, also before the kernel tells more.
   * @param {string} status */
  restate(status) {
    if (!this.standing) return;
    const fresh = pill(status);
    this.standing.replaceWith(fresh);
    this.standing = fresh;
  }

  /** @param {number} index @param {any} details null until the kernel has answered */
  inspect(index, details) {
    const info = this.model.get("nodes")[index];
    const state = this.model.get("states")[String(index)];
    if (!info) return this.close();
    const d = details ?? {};
    const status = state?.s ?? d.status ?? "idle";
    this.standing = pill(status);
    const title = h("div", { class: "pb-inspected" },
      h("h4", {}, info.id), this.standing,
      h("button", { type: "button", class: "pb-close", title: "Close (Escape)", "aria-label": "Close", onclick: () => this.close(true) }, "\u00d7"));
    const scrolled = this.inspector.scrollTop;
    this.inspector.setAttribute("aria-label", `Node ${info.id}`);
    this.inspector.hidden = false;
    this.inspector.replaceChildren(title,
      d.tool || info.tool ? h("code", { class: "pb-tool" }, d.tool || info.tool) : h("span", { class: "pb-soft" }, "chosen by a model"),
      details ? told(d) : h("p", { class: "pb-soft" }, "\u2026"));
    this.inspector.scrollTop = scrolled;
  }

  // -- the graph in words ----------------------------------------------------------------------

  /** @param {any} [some] */
  tabulate(some) {
    if (!this.twin.open) return;
    const infos = this.model.get("nodes");
    const states = this.model.get("states");
    if (this.tabled !== infos) {
      this.tabled = infos;
      this.rows.replaceChildren(...infos.slice(0, LISTED).map((info, index) => h("tr", {},
        h("th", { scope: "row" }, h("button", { type: "button", class: "pb-link", onclick: () => this.open(index, true) }, info.id)),
        h("td", {}, info.tool), h("td", {}, info.after.map((other) => infos[other]?.id ?? "").join(", ")),
        h("td", {}), h("td", { class: "pb-number" }), h("td", { class: "pb-number" }), h("td", { class: "pb-number" }))));
      if (infos.length > LISTED) this.rows.append(h("tr", {}, h("td", { colspan: "7" }, `and ${infos.length - LISTED} more`)));
      some = undefined;
    }
    for (const key of Object.keys(some ?? states)) {
      const cells = Number(key) < LISTED ? this.rows.children[Number(key)]?.children : null;
      const state = states[key];
      if (!cells || cells.length < 7 || !state) continue;
      if (cells[3].getAttribute("data-status") !== state.s) {
        cells[3].setAttribute("data-status", state.s);
        cells[3].replaceChildren(pill(state.s));
      }
      [state.i, state.t, state.b].forEach((text, place) => write(cells[place + 4], text ?? ""));
    }
  }
}

/** What the kernel told about a node: what it is and how it went, then what it gave. @param {any} d */
function told(d) {
  const stands = h("div");
  const gave = h("div");
  const pairs = (/** @type {[string, string][]} */ list) =>
    h("dl", { class: "pb-facts" }, ...list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  if (d.description) stands.append(h("p", { class: "pb-soft" }, d.description));
  const problems = [d.reason, ...d.errors].filter((text, place, all) => text && all.indexOf(text) === place);
  for (const text of problems) stands.append(h("p", { class: "pb-problem" }, text));
  for (const issue of d.issues) {
    const place = issue.line ? `line ${issue.line}, column ${issue.column ?? 1}: ` : "";
    stands.append(h("p", { class: issue.severity === "error" ? "pb-problem" : "pb-caution" }, `${place}${issue.message} [${issue.code}]`,
      issue.fix ? h("span", { class: "pb-fix" }, issue.fix) : null));
  }
  for (const text of d.warnings) stands.append(h("p", { class: "pb-caution" }, text));
  if (d.facts.length) stands.append(pairs(d.facts));
  if (d.facets.length) stands.append(h("h5", {}, "Facets"), pairs(d.facets));
  if (d.args_text.trim()) stands.append(h("h5", {}, "Arguments as written"), h("pre", { tabindex: "0" }, d.args_text.trimEnd()));
  if (d.table) gave.append(h("h5", {}, "Artifact", h("span", { class: "pb-soft" }, ` ${shown(d.table)}`)), grid(d.table));
  if (d.keys.length) gave.append(h("h5", {}, "Stored as"), h("p", { class: "pb-keys" }, ...d.keys.flatMap((key) => [h("code", {}, key), " "])));
  if (d.output) gave.append(h("h5", {}, "Printed by the tool"), h("pre", { tabindex: "0" }, d.output.trimEnd()));
  return h("div", { class: "pb-told" }, stands, gave.childElementCount ? gave : null);
}

/** @param {Table} table */
const shown = (table) => {
  const count = `${table.n_rows.toLocaleString("en")} row${table.n_rows === 1 ? "" : "s"}`;
  return table.rows.length < table.n_rows ? `first ${table.rows.length} of ${count}` : count;
};

/** @param {Table} table */
function grid(table) {
  const numeric = table.columns.map((_, place) => {
    const cells = table.rows.map((row) => row[place]).filter(Boolean);
    return cells.length > 0 && cells.every((cell) => /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?$/i.test(cell));
  });
  const cell = (tag, text, place) => h(tag, { class: numeric[place] ? "pb-number" : null, title: text.length > 40 ? text : null }, text);
  return h("div", { class: "pb-scroll", tabindex: "0" }, h("table", {},
    h("thead", {}, h("tr", {}, ...table.columns.map((name, place) => cell("th", name, place)))),
    h("tbody", {}, ...table.rows.map((row) => h("tr", {}, ...row.map((text, place) => cell("td", text, place)))))));
}

// -- places in saved HTML ----------------------------------------------------------------------

const WATCH = Symbol.for("planbench.places.1");

/**
 * Call back when a place may have come into the page or left it; one observer for all panels.
 *
 * @param {() => void} callback
 * @returns {() => void} the way out
 */
function watch(callback) {
  const page = /** @type {any} */ (globalThis);
  if (!page[WATCH]) {
    const callbacks = new Set();
    const holds = (/** @type {NodeList} */ nodes) =>
      [...nodes].some((node) => node instanceof Element && (node.classList.contains("pb-place") || node.querySelector(".pb-place")));
    const observer = new MutationObserver((records) => {
      if (records.some((record) => holds(record.addedNodes) || holds(record.removedNodes))) for (const call of [...callbacks]) call();
    });
    observer.observe(document.documentElement, { childList: true, subtree: true });
    page[WATCH] = { callbacks, observer };
  }
  const { callbacks, observer } = page[WATCH];
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (!callbacks.size) {
      observer.disconnect();
      delete page[WATCH];
    }
  };
}

/** @type {Initialize<Traits>} */
function initialize({ model }) {
  /** What was open in the view that left last.
   * @type {{selected: number | null, zoom: number}} */
  let left = { selected: null, zoom: 0 };
  /** Each place with its view, and with the saved picture that the view stands in for.
   * @type {Map<Element, {view: View, saved: DocumentFragment}>} */
  const places = new Map();
  /** @type {Set<View>} */
  const spares = new Set();
  let live = true;
  let asked = 0;

  // A place leaves the page and comes again when its output is written anew or scrolled back to:
  // the view moves over, with what is open in it.
  const spare = (/** @type {View} */ view) => {
    spares.add(view);
    setTimeout(() => {
      if (!spares.delete(view)) return;
      left = view.memory;
      view.destroy();
    }, SPARE_MS);
  };
  const scan = () => {
    for (const [place, { view, saved }] of places) {
      if (live && place.isConnected) continue;
      places.delete(place);
      place.classList.remove("pb-mounted");
      place.replaceChildren(saved);
      if (live) spare(view);
      else view.destroy();
    }
    if (!live) return;
    for (const place of document.getElementsByClassName(`pb-place-${model.get("key")}`)) {
      if (places.has(place)) continue;
      const [kept] = spares;
      spares.delete(kept);
      const view = kept ?? new View(model, { ...left });
      const saved = document.createDocumentFragment();
      saved.append(...place.childNodes);
      places.set(place, { view, saved });
      place.classList.add("pb-mounted");
      view.mount(place);
    }
  };
  const revive = (/** @type {boolean} */ alive) => {
    clearTimeout(asked);
    if (live === alive) return;
    live = alive;
    scan();
  };

  const receive = (/** @type {any} */ message) => {
    revive(true);
    if (message.type !== "delta") return;
    // In place: the next view of this model, and each copy of the proxy, reads the same objects.
    Object.assign(model.get("states"), message.states);
    Object.assign(model.get("status"), message.status);
    Object.assign(model.get("buttons"), message.buttons);
  };
  // A restarted kernel does not know this model any more, a short loss of the line leaves it alive:
  // only an answer tells the two apart.
  const doubt = () => {
    clearTimeout(asked);
    asked = setTimeout(() => revive(false), ANSWER_MS);
    try {
      model.send({ type: "ping" });
    } catch {
      revive(false); // the line itself is gone
    }
  };
  const leave = watch(scan);
  model.on("msg:custom", receive);
  model.on(/** @type {any} */ ("comm_live_update"), doubt);
  model.send({ type: "ping" }); // the kernel learns that somebody shows its panels
  scan();
  return () => {
    leave();
    live = false;
    clearTimeout(asked);
    model.off("msg:custom", receive);
    model.off(/** @type {any} */ ("comm_live_update"), doubt);
    scan();
    for (const view of spares) view.destroy();
  };
}

/** @type {Render<Traits>} */
function render({ model, el }) {
  const view = new View(model, { selected: null, zoom: 0 });
  el.append(view.root);
  return () => view.destroy();
}

export default { initialize, render };
