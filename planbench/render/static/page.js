// Opens the details of a node: by a click or Enter on it in the drawing, and by its link in the table.
(() => {
  "use strict";
  const nodes = [...document.querySelectorAll(".graph [data-node]")];
  const open = (id) => {
    const details = document.getElementById(id);
    if (!details || details.tagName !== "DETAILS") return;
    details.open = true;
    details.scrollIntoView({ block: "start", behavior: "smooth" });
    details.querySelector("summary").focus({ preventScroll: true });
  };
  // Of the nodes one can be reached by Tab; the arrows go on from there.
  const move = (from, step) => {
    const to = nodes[nodes.indexOf(from) + step];
    if (!to) return;
    from.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  };
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  for (const node of nodes) {
    if (!/^n\d+$/.test(node.dataset.node)) continue;
    const id = "d" + node.dataset.node.slice(1);
    node.addEventListener("click", () => open(id));
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open(id);
      else if (event.key in steps) move(node, steps[event.key]);
      else return;
      event.preventDefault();
    });
  }
  const follow = () => open(location.hash.slice(1));
  addEventListener("hashchange", follow);
  follow();
})();
