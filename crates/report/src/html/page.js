"use strict";
// Sorting, filtering, zooming and reading out. The page is whole without it. Everything
// shown is set as text, never as markup.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  // ── light and dark ────────────────────────────────────────────────────────────────
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const theme = make("button", { id: "theme", type: "button" });
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();
  document.querySelector("header").append(theme);

  // ── tables ────────────────────────────────────────────────────────────────────────
  const number = (text) => {
    const found = /^<?(>?-?[\d,]*\.?\d+)/.exec(text.trim());
    if (!found) return null;
    const value = parseFloat(found[1].replace(/[>,]/g, ""));
    return text.trim()[0] === "<" ? value / 2 : value;
  };
  for (const block of all(".block")) {
    const table = block.querySelector("table");
    if (!table) continue;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    const brief = Number(table.dataset.brief);
    const name = table.dataset.rows;
    let wanted = "";
    let open = rows.length <= brief + 3;
    const tools = make("div", { className: "tools" });
    const status = make("output");
    const more = make("button", { type: "button" });
    const show = () => {
      let shown = 0;
      let matching = 0;
      for (const row of body.rows) {
        const matches = !wanted || row.textContent.toLowerCase().includes(wanted);
        matching += matches;
        row.hidden = !matches || (!open && !wanted && shown >= brief);
        shown += !row.hidden;
      }
      status.textContent = wanted ? `${matching} of ${rows.length} ${name}` : "";
      more.textContent = open ? `Only the first ${brief}` : `All ${rows.length} ${name}`;
      more.hidden = Boolean(wanted);
    };
    if (rows.length > 15) {
      const filter = make("input", { type: "search", placeholder: `Filter ${name}` });
      filter.setAttribute("aria-label", `Filter ${name}`);
      filter.addEventListener("input", () => { wanted = filter.value.trim().toLowerCase(); show(); });
      tools.append(filter);
    }
    if (!open) {
      more.addEventListener("click", () => { open = !open; show(); });
      tools.append(more);
    }
    const details = heads.filter((head) => head.classList.contains("d")).length;
    if (details) {
      const columns = make("button", { type: "button" });
      const fold = (narrow) => {
        table.classList.toggle("narrow", narrow);
        columns.textContent = narrow ? `${details} more columns` : "Fewer columns";
      };
      columns.addEventListener("click", () => fold(!table.classList.contains("narrow")));
      fold(true);
      tools.append(columns);
    }
    tools.append(status);
    if (tools.children.length > 1) block.insertBefore(tools, block.querySelector(".scroll"));
    show();
    if (rows.length < 2) continue;
    heads.forEach((head, column) => {
      if (head.classList.contains("bar")) return;
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const isText = head.classList.contains("t") || rows[0].cells[column].tagName === "TH";
        const before = head.getAttribute("aria-sort");
        // Numbers begin with the largest, words with the first.
        const up = before ? before === "descending" : isText;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keyed = rows.map((row, index) => {
          const text = row.cells[column].textContent;
          return { row, index, key: isText ? text.toLowerCase() : number(text) };
        });
        keyed.sort((a, b) => {
          if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.index - b.index;
          const order = isText ? a.key.localeCompare(b.key, undefined, { numeric: true }) : a.key - b.key;
          return (up ? order : -order) || a.index - b.index;
        });
        body.append(...keyed.map((entry) => entry.row));
        show();
      });
    });
  }

  // ── histograms ────────────────────────────────────────────────────────────────────
  for (const figure of all(".histogram")) {
    const readout = figure.querySelector(".readout");
    const hint = "Point at a bar, or use the arrow keys, to read its count.";
    readout.textContent = hint;
    const plots = all(".plot", figure);
    for (const plot of plots) {
      const bars = all(".bars rect", plot);
      let at = -1;
      const choose = (index) => {
        bars[at]?.classList.remove("at");
        at = index;
        bars[at]?.classList.add("at");
        const series = plot.parentNode.querySelector(".y b").textContent;
        readout.textContent = at < 0 ? hint : `${series}: ${bars[at].querySelector("title").textContent}`;
      };
      plot.addEventListener("pointermove", (event) => {
        const boxes = bars.map((bar) => bar.getBoundingClientRect());
        const distance = (box) => Math.max(box.left - event.clientX, event.clientX - box.right, 0);
        let best = 0;
        boxes.forEach((box, i) => { if (distance(box) < distance(boxes[best])) best = i; });
        if (best !== at) choose(best);
      });
      plot.addEventListener("pointerleave", () => choose(-1));
      plot.addEventListener("blur", () => choose(-1));
      plot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        choose(clamp(at + step, 0, bars.length - 1));
      });
    }
    const log = make("button", { type: "button" }, "Logarithmic counts");
    log.setAttribute("aria-pressed", "false");
    log.addEventListener("click", () => {
      const on = log.getAttribute("aria-pressed") !== "true";
      log.setAttribute("aria-pressed", String(on));
      for (const plot of plots) {
        const bars = all(".bars rect", plot);
        const height = Number(plot.getAttribute("height"));
        const room = height - Number(plot.dataset.top);
        const size = (bar) => {
          const count = Number(bar.dataset.c);
          return on ? Math.log(count) + 0.7 : count / parseFloat(bar.getAttribute("width"));
        };
        const most = Math.max(...bars.map(size));
        for (const bar of bars) {
          const tall = Math.max(1.5, (size(bar) / most) * room);
          bar.setAttribute("y", height - tall);
          bar.setAttribute("height", tall);
        }
      }
    });
    figure.querySelector(".tools").append(log);
  }

  // ── flame graphs ──────────────────────────────────────────────────────────────────
  /*flame*/
  for (const figure of all(".flame")) {
    const search = make("input", { type: "search", placeholder: "Search functions" });
    search.setAttribute("aria-label", "Search functions");
    const found = make("output");
    const reset = make("button", { type: "button", disabled: true }, "All");
    const plot = figure.querySelector(".plot");
    flameGraph(plot, plot, { search, found, reset, readout: figure.querySelector(".readout") });
    figure.querySelector(".tools").append(search, found, reset);
  }

  // ── pictures over time: one view for all of them ──────────────────────────────────
  const charts = all(".heat, .lanes").map((figure) => {
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    return { figure, data, readout: figure.querySelector(".readout"), plots: all(".plot", figure) };
  });
  if (!charts.length) return;
  const whole = {
    from: Math.min(...charts.map((c) => c.data.start)),
    to: Math.max(...charts.map((c) => c.data.start + c.data.step * c.data.columns)),
  };
  let view = { ...whole };
  const finest = Math.min(...charts.map((c) => c.data.step)) * 8;
  const hint = "Point at it to read it. Drag to zoom in; with the keyboard: arrows move, + and - zoom, 0 shows all.";

  const seconds = (nanos, step) => {
    const decimals = clamp(9 - Math.floor(Math.log10(step)), 0, 9);
    return `${(nanos / 1e9).toFixed(decimals)} s`;
  };
  const drawAxis = (svg) => {
    const span = view.to - view.from;
    const raw = span / (svg.clientWidth < 420 ? 3 : 6);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
    svg.replaceChildren();
    for (let n = Math.ceil(view.from / step); n * step <= view.to; n++) {
      const place = (n * step - view.from) / span;
      const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.setAttribute("x", `${place * 100}%`);
      text.setAttribute("y", "15");
      text.setAttribute("text-anchor", place < 0.04 ? "start" : place > 0.96 ? "end" : "middle");
      text.textContent = seconds(n * step, step);
      svg.append(text);
    }
  };
  const draw = () => {
    for (const { figure, data } of charts) {
      for (const svg of all(".time", figure)) {
        const height = svg.viewBox.baseVal.height;
        const from = (view.from - data.start) / data.step;
        svg.setAttribute("viewBox", `${from} 0 ${(view.to - view.from) / data.step} ${height}`);
      }
      all(".seconds", figure).forEach(drawAxis);
      figure.querySelector(".all").disabled = view.from === whole.from && view.to === whole.to;
    }
    drawMarks();
  };
  const look = (from, to) => {
    const span = clamp(to - from, finest, whole.to - whole.from);
    const middle = (from + to) / 2;
    const start = clamp(middle - span / 2, whole.from, whole.to - span);
    view = { from: start, to: start + span };
    draw();
  };
  const zoom = (factor, around = (view.from + view.to) / 2) => {
    const left = (around - view.from) * factor;
    const right = (view.to - around) * factor;
    look(around - left, around + right);
  };

  // The height of a staircase at a column, from its path: V is a level, H where it ends.
  const levels = new WeakMap();
  const valueAt = (svg, column) => {
    if (!levels.has(svg)) {
      const steps = [];
      for (const [, level, end] of svg.querySelector("path").getAttribute("d").matchAll(/V(\d+)H(\d+)/g)) {
        steps.push([Number(end), 1 - Number(level) / svg.viewBox.baseVal.height]);
      }
      levels.set(svg, steps);
    }
    const unknown = all(".doubt", svg).some((rect) => {
      const x = rect.x.baseVal.value;
      return column >= x && column < x + rect.width.baseVal.value;
    });
    if (unknown) return null;
    return levels.get(svg).find(([end]) => column < end)?.[1] ?? null;
  };

  let marked = null;
  const cursors = [];
  const cell = make("div", { className: "cell", hidden: true });
  const hideCursors = () => {
    cursors.forEach((cursor) => { cursor.hidden = true; });
    cell.hidden = true;
    charts.forEach((chart) => { chart.readout.textContent = marked ? marked.name : hint; });
  };
  const grouped = (value) => value.toLocaleString("en-US");

  // Reads one chart at a time (nanoseconds) and, in heat maps, a height (0 at the top … 1).
  const read = (chart, plot, time, height) => {
    const { data } = chart;
    const column = clamp(Math.floor((time - data.start) / data.step), 0, data.columns - 1);
    const begin = data.start + column * data.step;
    const when = `${seconds(begin, data.step / 10)} – ${seconds(begin + data.step, data.step / 10)}`;
    const place = (time - view.from) / (view.to - view.from);
    cursors.forEach((cursor) => { cursor.hidden = false; cursor.style.left = `${place * 100}%`; });
    if (data.cells) {
      const rows = data.edges.length - 1;
      const row = clamp(Math.floor((1 - height) * rows), 0, rows - 1);
      const cells = data.cells[column];
      let count = 0;
      let total = 0;
      for (let i = 0; i < cells.length; i += 2) {
        total += cells[i + 1];
        if (cells[i] === row) count = cells[i + 1];
      }
      chart.readout.textContent =
        `${when}: ${grouped(count)} of ${data.edges[row]} … ${data.edges[row + 1]}; ${grouped(total)} in this column`;
      plot.append(cell);
      cell.hidden = false;
      const left = (begin - view.from) / (view.to - view.from);
      const width = data.step / (view.to - view.from);
      cell.style.left = `${clamp(left, 0, 1) * 100}%`;
      cell.style.width = `${Math.min(width, 1 - left) * 100}%`;
      cell.style.top = `${((rows - 1 - row) / rows) * 100}%`;
      cell.style.height = `${100 / rows}%`;
    } else {
      cell.hidden = true;
      const values = all(".time", plot).map((svg, i) => {
        const track = data.tracks[i];
        const value = valueAt(svg, column);
        const text = value === null ? "not known" : `${(value * track.top).toFixed(track.unit ? 0 : 1)}${track.unit}`;
        return `${track.title} ${text}`;
      });
      chart.readout.textContent = `${when}, ${plot.dataset.lane}: ${values.join(", ")}`;
    }
  };

  for (const chart of charts) {
    const tools = chart.figure.querySelector(".tools");
    const button = (text, label, action, name = "") => {
      const element = make("button", { type: "button", className: name }, text);
      element.setAttribute("aria-label", label);
      element.addEventListener("click", action);
      tools.append(element);
    };
    let here = { time: (whole.from + whole.to) / 2, height: 0.5 };
    const middle = () => (here.time >= view.from && here.time <= view.to ? here.time : (view.from + view.to) / 2);
    button("◀", "Earlier", () => look(view.from - (view.to - view.from) / 3, view.to - (view.to - view.from) / 3));
    button("▶", "Later", () => look(view.from + (view.to - view.from) / 3, view.to + (view.to - view.from) / 3));
    button("+", "Zoom in", () => zoom(0.5, middle()));
    button("−", "Zoom out", () => zoom(2, middle()));
    button("All", "Show all of the time", () => look(whole.from, whole.to), "all");
    for (const plot of chart.plots) {
      const cursor = make("div", { className: "cursor", hidden: true });
      const band = make("div", { className: "band", hidden: true });
      plot.append(cursor, band);
      cursors.push(cursor);
      const spot = (event) => {
        const box = plot.getBoundingClientRect();
        const place = clamp((event.clientX - box.left) / box.width, 0, 1);
        const time = view.from + place * (view.to - view.from);
        return { place, time, height: clamp((event.clientY - box.top) / box.height, 0, 1) };
      };
      let start = null;
      plot.addEventListener("pointerdown", (event) => {
        here = spot(event);
        read(chart, plot, here.time, here.height);
        // A finger scrolls the page; zooming there is for the buttons.
        if (event.pointerType === "touch" || event.button !== 0) return;
        start = here;
        plot.setPointerCapture(event.pointerId);
      });
      plot.addEventListener("pointermove", (event) => {
        here = spot(event);
        read(chart, plot, here.time, here.height);
        if (!start) return;
        band.hidden = false;
        band.style.left = `${Math.min(start.place, here.place) * 100}%`;
        band.style.width = `${Math.abs(start.place - here.place) * 100}%`;
      });
      plot.addEventListener("pointerup", (event) => {
        if (start && Math.abs(start.place - spot(event).place) > 0.01) {
          const end = spot(event);
          look(Math.min(start.time, end.time), Math.max(start.time, end.time));
        }
        start = null;
        band.hidden = true;
      });
      plot.addEventListener("pointercancel", () => { start = null; band.hidden = true; });
      plot.addEventListener("pointerleave", () => { if (!start) hideCursors(); });
      plot.addEventListener("dblclick", () => look(whole.from, whole.to));
      plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) read(chart, plot, middle(), here.height); });
      plot.addEventListener("blur", hideCursors);
      plot.addEventListener("keydown", (event) => {
        const step = Math.max(chart.data.step, (view.to - view.from) / 400);
        const rows = chart.data.edges ? chart.data.edges.length - 1 : 1;
        const moves = {
          ArrowLeft: () => { here.time -= step; }, ArrowRight: () => { here.time += step; },
          ArrowUp: () => { here.height -= 1 / rows; }, ArrowDown: () => { here.height += 1 / rows; },
          "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()),
          0: () => look(whole.from, whole.to), Escape: () => plot.blur(),
        };
        const move = moves[event.key];
        if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
        if (!chart.data.edges && /Up|Down/.test(event.key)) return;
        event.preventDefault();
        move();
        here.time = clamp(here.time, whole.from, whole.to - 1);
        here.height = clamp(here.height, 0.001, 0.999);
        if (here.time < view.from || here.time > view.to) {
          const span = view.to - view.from;
          look(here.time - span / 2, here.time + span / 2);
        }
        if (event.key !== "Escape") read(chart, plot, here.time, here.height);
      });
    }
  }
  // A row that stands for a stretch of time shows it in all pictures.
  const marks = charts.flatMap((chart) => chart.plots.map((plot) => {
    const mark = make("div", { className: "mark-span", hidden: true });
    plot.append(mark);
    return mark;
  }));
  const drawMarks = () => {
    const span = view.to - view.from;
    const from = marked ? clamp((marked.from - view.from) / span, 0, 1) : 0;
    const to = marked ? clamp((marked.to - view.from) / span, 0, 1) : 0;
    for (const mark of marks) {
      mark.hidden = !marked || marked.to < view.from || marked.from > view.to;
      mark.style.left = `${from * 100}%`;
      mark.style.width = `${(to - from) * 100}%`;
    }
  };
  for (const row of all("tr[data-from]")) {
    const cell = row.cells[0];
    const show = make("button", { type: "button", className: "show", title: "Show it in the pictures over time" }, ...cell.childNodes);
    cell.append(show);
    show.addEventListener("click", () => {
      const words = [...row.cells].slice(0, 4).map((other) => other.textContent).join(" · ");
      marked = { from: Number(row.dataset.from), to: Number(row.dataset.to), name: `Marked: ${words}` };
      hideCursors();
      const room = Math.max(marked.to - marked.from, finest / 2);
      look(marked.from - room, marked.to + room);
      (document.querySelector(".lanes") ?? charts[0].figure).scrollIntoView({ block: "center" });
    });
  }
  addEventListener("resize", () => all(".seconds").forEach(drawAxis));
  hideCursors();
  draw();
})();
