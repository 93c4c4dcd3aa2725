  // Search and zoom of one flame graph: `plot` holds the boxes; the controls belong to the page or picture around it.
  const flameGraph = (plot, keys, { search, found, reset, readout }) => {
    const hint = "Click a box to zoom to it; with the keyboard: arrows move, Enter zooms, Escape shows all.";
    const boxes = [...plot.querySelectorAll(".f")].map((svg) => {
      const title = svg.querySelector("title").textContent;
      const label = svg.querySelector("text");
      return {
        svg, title, name: label ? label.textContent : title.slice(0, title.lastIndexOf(": ")), shown: true,
        x: parseFloat(svg.getAttribute("x")), width: parseFloat(svg.getAttribute("width")), y: Number(svg.getAttribute("y")),
      };
    });
    const row = 18;
    const inside = (inner, outer) => inner.x >= outer.x - 0.01 && inner.x + inner.width <= outer.x + outer.width + 0.01;
    const place = (box) => {
      if (!top) return box;
      if (inside(top, box) && box.y > top.y) return { x: 0, width: 100 };
      return { x: ((box.x - top.x) / top.width) * 100, width: (box.width / top.width) * 100 };
    };
    let at = null;
    let top = null;
    let letter = 7;
    readout.textContent = hint;
    const choose = (box) => {
      at?.svg.classList.remove("on");
      at = box;
      at?.svg.classList.add("on");
      readout.textContent = at ? at.title : hint;
    };
    // Names end in an ellipsis where their box does.
    const label = () => {
      const room = plot.getBoundingClientRect().width;
      for (const box of boxes) {
        if (!box.shown) continue;
        const letters = Math.floor(((place(box).width / 100) * room - 6) / letter);
        let text = box.svg.querySelector("text");
        if (letters < 3) {
          text?.remove();
          continue;
        }
        if (!text) {
          text = document.createElementNS("http://www.w3.org/2000/svg", "text");
          text.setAttribute("x", "4");
          text.setAttribute("y", "13");
          box.svg.append(text);
        }
        const fitting = box.name.length > letters ? `${box.name.slice(0, letters - 1)}…` : box.name;
        if (text.textContent !== fitting) text.textContent = fitting;
      }
    };
    const zoom = (box) => {
      top = box;
      reset.disabled = !box;
      const view = box ?? { x: 0, width: 100, y: Infinity };
      for (const other of boxes) {
        const caller = inside(view, other) && other.y > view.y;
        other.shown = caller || (inside(other, view) && other.y <= view.y);
        other.svg.setAttribute("display", other.shown ? "inline" : "none");
        other.svg.classList.toggle("dim", caller);
        if (!other.shown) continue;
        const { x, width } = place(other);
        other.svg.setAttribute("x", `${x}%`);
        other.svg.setAttribute("width", `${width}%`);
      }
      label();
    };
    for (const box of boxes) {
      box.svg.addEventListener("pointerenter", () => choose(box));
      box.svg.addEventListener("click", () => zoom(top === box ? null : box));
    }
    plot.addEventListener("pointerleave", () => choose(null));
    keys.addEventListener("keydown", (event) => {
      if (event.target === search) return;
      const near = (y, test) => boxes.filter((box) => box.shown && box.y === y && test(box)).sort((a, b) => a.x - b.x);
      const lowest = () => near(Math.max(...boxes.filter((box) => box.shown).map((box) => box.y)), () => true)[0];
      const moves = {
        ArrowUp: () => near(at.y - row, (box) => inside(box, at)).sort((a, b) => b.width - a.width)[0],
        ArrowDown: () => near(at.y + row, (box) => inside(at, box))[0],
        ArrowLeft: () => near(at.y, (box) => box.x < at.x).pop(),
        ArrowRight: () => near(at.y, (box) => box.x > at.x)[0],
      };
      if (event.key === "Enter" && at) zoom(at);
      else if (event.key === "Escape") zoom(null);
      else if (moves[event.key]) choose((at ? moves[event.key]() : lowest()) ?? at);
      else return;
      event.preventDefault();
    });
    search.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      // A function that calls itself counts once: only boxes that no other hit holds.
      let sum = 0;
      let end = -1;
      const hits = boxes.filter((box) => {
        const hit = wanted && box.name.toLowerCase().includes(wanted);
        box.svg.classList.toggle("hit", Boolean(hit));
        return hit;
      });
      hits.sort((a, b) => a.x - b.x || b.width - a.width);
      for (const hit of hits) {
        if (hit.x + hit.width <= end + 0.005) continue;
        sum += hit.width;
        end = hit.x + hit.width;
      }
      found.textContent = wanted ? `${hits.length} ${hits.length === 1 ? "box" : "boxes"}, ${sum.toFixed(1)} %` : "";
    });
    reset.addEventListener("click", () => zoom(null));
    addEventListener("resize", label);
    const sample = plot.querySelector(".f text");
    if (sample) {
      const was = sample.textContent;
      sample.textContent = "abcdefghijklmnopqrstuvwxyz_:<>";
      letter = sample.getComputedTextLength() / 30 || letter;
      sample.textContent = was;
    }
    label();
  };
