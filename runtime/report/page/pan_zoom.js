// Moving and scaling an SVG drawing by mouse, touch, wheel and keys.

/** Returns {fit, zoom, pan, reveal}; `content` is the group inside `svg` that moves. */
function panZoom(svg, content, size) {
  const view = { x: 0, y: 0, scale: 1 };
  const apply = () =>
    content.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  const box = () => svg.getBoundingClientRect();
  const zoom = (factor, px, py) => {
    const area = box();
    const [x, y] = [px ?? area.width / 2, py ?? area.height / 2];
    const scale = Math.min(3, Math.max(0.05, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    apply();
  };
  const pan = (dx, dy) => {
    view.x += dx;
    view.y += dy;
    apply();
  };
  const fit = (whole = false) => {
    const area = box();
    const { width, height } = size();
    const across = (area.width - 32) / Math.max(width, 1);
    const down = (area.height - 32) / Math.max(height, 1);
    view.scale = Math.min(
      1,
      whole
        ? Math.min(across, down)
        : Math.max(Math.min(across, down), Math.min(across, 0.75), 0.3),
    );
    view.x = Math.max(16, (area.width - width * view.scale) / 2);
    if (width * view.scale > area.width - 32) view.x = (area.width - width * view.scale) / 2;
    view.y = 16;
    apply();
  };
  const reveal = (x, y, width, height) => {
    const area = box();
    const [left, top] = [x * view.scale + view.x, y * view.scale + view.y];
    const [right, bottom] = [left + width * view.scale, top + height * view.scale];
    const margin = 24;
    if (left < margin) view.x += margin - left;
    else if (right > area.width - margin)
      view.x -= Math.min(right - area.width + margin, left - margin);
    if (top < margin) view.y += margin - top;
    else if (bottom > area.height - margin)
      view.y -= Math.min(bottom - area.height + margin, top - margin);
    apply();
  };
  svg.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const area = box();
      if (event.ctrlKey || event.metaKey || event.altKey)
        zoom(Math.exp(-event.deltaY / 200), event.clientX - area.left, event.clientY - area.top);
      else if (event.shiftKey) pan(-event.deltaY, 0);
      else zoom(Math.exp(-event.deltaY / 500), event.clientX - area.left, event.clientY - area.top);
    },
    { passive: false },
  );
  drag(svg, pan, zoom);
  return { fit, zoom, pan, reveal };
}

function drag(svg, pan, zoom) {
  const fingers = new Map();
  let moved = 0;
  svg.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    moved = 0;
  });
  svg.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const now = [event.clientX, event.clientY];
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [ox, oy] = others[0][1];
      const area = svg.getBoundingClientRect();
      const before = Math.hypot(last[0] - ox, last[1] - oy);
      if (before > 0)
        zoom(Math.hypot(now[0] - ox, now[1] - oy) / before, ox - area.left, oy - area.top);
    } else pan(now[0] - last[0], now[1] - last[1]);
    moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
    if (moved > 4 && !svg.hasPointerCapture(event.pointerId))
      svg.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, now);
  });
  for (const kind of ["pointerup", "pointercancel", "lostpointercapture"])
    svg.addEventListener(kind, (event) => fingers.delete(event.pointerId));
  svg.addEventListener(
    "click",
    (event) => {
      if (moved > 4) event.stopPropagation();
    },
    true,
  );
}
