// Passes: the list of every stage, and what one of them did, side by side.

const LONG = 140; // letters of an unchanged run shown at once

function passesView(page) {
  const { data } = page;
  const list = h("nav", { class: "side", "aria-label": "passes" });
  const detail = h("div", { class: "main", tabindex: "-1" });
  const slowest = Math.max(...data.stages.flatMap((stage) => stage.versions.map((version) => version.seconds?.[0] ?? 0)), 1e-9);
  for (const stage of data.stages) {
    list.append(h("h3", { id: `stage-${stage.name}` }, stage.name));
    list.append(h("ul", { class: "options", role: "listbox", "aria-labelledby": `stage-${stage.name}` },
      stage.versions.slice(1).map((version, k) => passOption(page, stage, version, k + 1, slowest))));
  }
  const select = (stageName, index, focus) => {
    const stage = data.stages.find((each) => each.name === stageName) ?? data.stages[0];
    const number = Math.min(Math.max(1, Number(index) || firstChanged(stage)), stage.versions.length - 1);
    if (number < 1) return replace(detail, h("p", { class: "muted" }, "This stage has no passes."));
    for (const option of list.querySelectorAll("[role=option]")) {
      const chosen = option.dataset.stage === stage.name && Number(option.dataset.index) === number;
      option.setAttribute("aria-selected", String(chosen));
      if (chosen) stopAt(list, "[role=option]", option);
      if (chosen && focus) option.focus();
      if (chosen) option.scrollIntoView({ block: "nearest" });
    }
    page.remember("passes", stage.name, number);
    replace(detail, passDetail(page, stage, number));
  };
  roving(list, "[role=option]", { onFocus: (option) => select(option.dataset.stage, option.dataset.index, false) });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) select(option.dataset.stage, option.dataset.index, true);
  });
  return { element: h("div", { class: "columns" }, list, detail), show: (stage, index) => select(stage, index, false) };
}

function firstChanged(stage) {
  const found = stage.versions.findIndex((version) => version.changes.length);
  return found > 0 ? found : 1;
}

function passOption(page, stage, version, index, slowest) {
  const changed = version.changes.length;
  const time = version.seconds?.[0];
  const worse = exceeds(version.error);
  return h("li", { role: "option", class: changed ? "" : "quiet", "data-stage": stage.name, "data-index": index, tabindex: "-1", "aria-selected": "false",
    "aria-label": `${index} ${version.name}, ${changed ? `${changed} functions changed` : "no change"}${time === undefined ? "" : `, ${seconds(time)}`}${worse ? ", error above its bound" : ""}` },
    h("span", { class: "number" }, String(index).padStart(2, "0")),
    h("span", { class: "name" }, version.name, worse ? h("span", { class: "bad" }, " ▲") : null),
    h("span", { class: "time" }, time === undefined ? "" : seconds(time)),
    time === undefined ? null : h("span", { class: "bar", style: `--part:${(time / slowest).toFixed(4)}` }));
}

/** Whether a verified error is larger than what rounding explains. */
function exceeds(error) {
  return Boolean(error) && !(typeof error.max === "number" && typeof error.bound === "number" && error.max <= error.bound);
}

function passDetail(page, stage, index) {
  const { data } = page;
  const version = stage.versions[index];
  const statistics = Object.entries(version.statistics ?? {});
  const parameters = Object.entries(version.parameters ?? {}).filter(([, value]) => value !== null && JSON.stringify(value) !== "[]");
  const remarks = version.remarks ?? [];
  return [
    h("h2", {}, `${stage.name} / ${String(index).padStart(2, "0")} ${version.name}`),
    h("p", { class: "chips" },
      version.fidelity ? h("span", { class: "chip" }, `fidelity: ${version.fidelity}`) : null,
      version.seconds ? h("span", { class: "chip" }, seconds(version.seconds[0])) : null,
      version.seconds?.[1] ? h("span", { class: "chip" }, `verification: ${seconds(version.seconds[1])}`) : null,
      statistics.map(([what, times]) => h("span", { class: "chip" }, `${what}: ${times}`))),
    version.search ? searchTable(version.search) : null,
    version.error ? errorLine(version.error) : null,
    parameters.length ? h("details", {}, h("summary", {}, "parameters"), h("dl", { class: "facts" }, parameters.map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]))) : null,
    remarks.length ? h("details", {}, h("summary", {}, `${remarks.length} ${remarks.length === 1 ? "remark" : "remarks"}`), h("ul", { class: "remarks" }, remarks.map((line) => h("li", {}, line)))) : null,
    version.changes.length ? null : h("p", { class: "muted" }, "The program is the one before this pass."),
    version.changes.map((change) => diffSection(data, change)),
  ];
}

/** Modelled cost of the forms that search compared, per function. */
function searchTable(search) {
  const titles = ["function", "form", "modelled time", "bytes", "flop", "against the fixed order"];
  const rows = Object.entries(search).flatMap(([graph, forms]) => {
    const fixed = forms.ordered?.nanoseconds;
    return Object.entries(forms).sort((a, b) => a[0].localeCompare(b[0], "en")).map(([form, cost]) => h("tr", { class: form === "chosen" ? "chosen" : "" },
      h("td", {}, h("code", {}, `@${graph}`)), h("td", {}, form),
      h("td", { class: "right" }, cost.nanoseconds === undefined ? "–" : seconds(cost.nanoseconds * 1e-9)), h("td", { class: "right" }, cost.bytes === undefined ? "–" : bytes(cost.bytes)), h("td", { class: "right" }, cost.flops === undefined ? "–" : flops(cost.flops)),
      h("td", { class: "right" }, fixed && cost.nanoseconds !== undefined ? `${cost.nanoseconds > fixed ? "+" : ""}${((100 * cost.nanoseconds) / fixed - 100).toFixed(1)} %` : "–")));
  });
  return h("div", { class: "scroll" }, h("table", { class: "largest" }, h("caption", {}, "What search compared"),
    h("thead", {}, h("tr", {}, titles.map((title, k) => h("th", { scope: "col", class: k > 1 ? "right" : "" }, title)))), h("tbody", {}, rows)));
}

function errorLine(error) {
  const worst = error.worst ?? {};
  return h("p", { class: exceeds(error) ? "error bad" : "error" },
    exceeds(error) ? "Error above its bound: " : "Error within its bound: ",
    `max ${figure(error.max)}, rms ${figure(error.rms)}, bound ${figure(error.bound)}`,
    worst.op ? `; worst at %${worst.node} ${worst.op} of @${worst.graph}${worst.location ? `, ${worst.location}` : ""}` : "");
}

function diffSection(data, change) {
  const counts = diffCounts(change, data.graphs);
  const old = change.before === null ? null : data.graphs[change.before];
  const now = change.after === null ? null : data.graphs[change.after];
  const moved = movedNodes(change);
  const body = h("tbody");
  const summary = `@${change.name}: ${counts.added} added, ${counts.removed} removed, ${counts.edited} changed`;
  const addRows = (rows) => rows.map((row) => (row.kind === "folded" ? foldedRow(row, body, addRows) : diffRow(data, old, now, moved, row)));
  body.append(...addRows(foldRows(diffRows(change, data.graphs))));
  body.append(outputsRow(old, now, change.outputs !== false));
  const table = h("table", { class: "diff", "aria-label": `${summary}; before on the left, after on the right` },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, old ? "before" : "not there before"), h("th", { scope: "col" }, now ? "after" : "not there after"))), body);
  return h("details", { open: true, class: "function" },
    h("summary", {}, h("code", {}, `@${change.name}`), h("span", { class: "count added" }, `+${counts.added}`), h("span", { class: "count removed" }, `−${counts.removed}`), h("span", { class: "count edited" }, `~${counts.edited}`)),
    table);
}

function foldedRow(row, body, addRows) {
  const element = h("tr", { class: "folded" }, h("td", { colspan: "2" },
    h("button", { type: "button", onclick: () => {
      const rows = addRows(row.rows);
      element.replaceWith(...rows);
      rows[0].querySelector("button")?.focus();
    } }, `⋯ ${row.rows.length} ${row.what} lines`)));
  return element;
}

function diffRow(data, old, now, moved, row) {
  const before = row.before === null ? null : lineParts(data, old, row.before);
  const after = row.after === null ? null : lineParts(data, now, row.after);
  const marks = row.kind === "edited" ? lineDiff(before, after, moved) : [null, null];
  const said = { same: "", edited: "changed", removed: "removed", added: "added", replaced: "replaced" }[row.kind];
  return h("tr", { class: row.kind },
    lineCell(data, before, marks[0], before && row.kind !== "same" ? "old" : "", said, before && !(after && String(before.place) === String(after.place))),
    lineCell(data, after, marks[1], after && row.kind !== "same" ? "new" : "", said, true));
}

function lineCell(data, parts, marks, side, said, placed) {
  if (!parts) return h("td", { class: "empty" });
  const cell = h("td", { class: side });
  cell.append(h("div", { class: "cell" },
    side ? h("span", { class: "sign", "aria-label": said }, side === "old" ? "−" : "+") : h("span", { class: "sign" }, " "),
    h("code", { class: "ir" }, irLine(parts, marks)),
    placed ? placeButton(data, parts.place, () => cell) : null));
  return cell;
}

/** A line in colours; `marks` says which pieces changed. */
function irLine(parts, marks) {
  const piece = (kind, text, changed) => h(changed ? "mark" : "span", { class: kind }, text);
  const run = (kind, text, found) => (found ?? [[text, false]]).filter(([word]) => word).map(([word, changed], k, all) => (changed ? piece(kind, word, true) : shortened(kind, word, k > 0, k + 1 < all.length)));
  const named = parts.op === "input" || parts.op === "param";
  return [
    piece("value", `%${parts.position}`, false), " = ", piece("op", parts.op, marks?.op),
    named ? [' "', run("name", parts.name, marks?.name), '"'] : null,
    parts.operands.map((value, k) => [k ? ", " : " ", piece("value", valueText(value), marks?.operands[k])]),
    parts.attributes ? [" ", run("attributes", parts.attributes, marks?.attributes)] : null,
    " : ", run("types", parts.types, marks?.types),
  ];
}

/** Text without its middle if it is long (keys of a call have a thousand letters); a button shows it. */
function shortened(kind, text, hasLeft, hasRight) {
  if (text.length <= LONG) return h("span", { class: kind }, text);
  const head = text.slice(0, hasLeft ? 16 : 36);
  const tail = text.slice(-(hasRight ? 16 : 4));
  const middle = text.slice(head.length, text.length - tail.length);
  const button = h("button", { type: "button", class: "more", title: "show all", "aria-label": `show ${middle.length} more letters`, onclick: () => button.replaceWith(middle) }, `… ${count(middle.length)} …`);
  return h("span", { class: kind }, head, button, tail);
}

function outputsRow(old, now, same) {
  const cell = (graph, side) => (graph
    ? h("td", { class: same ? "" : side }, h("div", { class: "cell" }, h("span", { class: "sign" }, same ? " " : side === "old" ? "−" : "+"), h("code", { class: "ir" }, h("span", { class: "op" }, "return "), graph.outputs.map(valueText).join(", "))))
    : h("td", { class: "empty" }));
  return h("tr", { class: same ? "same" : "edited" }, cell(old, "old"), cell(now, "new"));
}
