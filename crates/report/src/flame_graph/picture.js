"use strict";
// Search and zoom for a picture that is opened by itself. Everything shown is set as text, never as markup.
(() => {
  const root = document.documentElement;
  // Inside of a page the picture is that page's.
  if (root.localName !== "svg") return;
  root.setAttribute("width", "100%");
  const html = "http://www.w3.org/1999/xhtml";
  const make = (name, attributes, text = "") => {
    const element = document.createElementNS(html, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    element.textContent = text;
    return element;
  };
  const search = make("input", { type: "search", placeholder: "Search functions", "aria-label": "Search functions" });
  const found = make("output", {});
  const reset = make("button", { type: "button", disabled: "" }, "All");
  const words = document.getElementById("readout");
  const readout = make("output", { id: "at" });
  const tools = make("div", { id: "tools" });
  tools.append(readout, found, search, reset);
  // One bar at the lower edge of the window, where the roots are, however far one scrolls.
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "foreignObject");
  const [tall, high] = [Number(root.getAttribute("height")), 36];
  bar.setAttribute("width", "100%");
  bar.setAttribute("height", high);
  const follow = () => bar.setAttribute("y", Math.min(scrollY + innerHeight, tall) - high);
  bar.append(tools);
  root.append(bar);
  words.remove();
  if (tall > innerHeight) scrollTo(0, tall);
  follow();
  addEventListener("scroll", follow);
  addEventListener("resize", follow);
  /*flame*/
  flameGraph(document.getElementById("plot"), document, { search, found, reset, readout });
})();
