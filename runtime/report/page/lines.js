// Lines of the text form, from the tables of the page's data. No document is needed here.

/** "%3" or "%3.1". */
function valueText(value) {
  return typeof value === "number" ? `%${value}` : `%${value[0]}.${value[1]}`;
}

function nodeOf(value) {
  return typeof value === "number" ? value : value[0];
}

function resultOf(value) {
  return typeof value === "number" ? 0 : value[1];
}

/** The parts of a node's line. */
function lineParts(data, graph, position) {
  const [body, place, ...operands] = graph.nodes[position];
  const [op, name, attributes, types] = data.bodies[body];
  return {
    position,
    op,
    name,
    attributes,
    types,
    operands,
    place: place < 0 ? null : data.places[place],
  };
}

/** The whole line, as `ascendfx opt` prints it. */
function lineText(parts) {
  const name = parts.op === "input" || parts.op === "param" ? ` "${parts.name}"` : "";
  const operands = parts.operands.length ? ` ${parts.operands.map(valueText).join(", ")}` : "";
  const attributes = parts.attributes ? ` ${parts.attributes}` : "";
  return `%${parts.position} = ${parts.op}${name}${operands}${attributes} : ${parts.types}`;
}

/** Pieces of `[text, changed]` of two texts that show what differs, word by word. */
function wordDiff(before, after) {
  const words = /[\p{L}\p{N}_.]+|\s+|./gsu;
  const a = before.match(words) ?? [];
  const b = after.match(words) ?? [];
  const kept = commonWords(a, b);
  return [
    pieces(a, new Set(kept.map((pair) => pair[0]))),
    pieces(b, new Set(kept.map((pair) => pair[1]))),
  ];
}

/** Index pairs of a longest common subsequence; of a long middle only the ends are compared. */
function commonWords(a, b) {
  const kept = [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) kept.push([start, start++]);
  let endA = a.length;
  let endB = b.length;
  const tail = [];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) tail.push([--endA, --endB]);
  const rows = endA - start;
  const columns = endB - start;
  if (rows && columns && rows * columns <= 250000) {
    const width = columns + 1;
    const best = new Uint32Array((rows + 1) * width);
    for (let i = rows - 1; i >= 0; i--)
      for (let j = columns - 1; j >= 0; j--)
        best[i * width + j] =
          a[start + i] === b[start + j]
            ? best[(i + 1) * width + j + 1] + 1
            : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    let i = 0;
    let j = 0;
    while (i < rows && j < columns) {
      if (a[start + i] === b[start + j]) kept.push([start + i++, start + j++]);
      else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
      else j++;
    }
  }
  return [...kept, ...tail.reverse()];
}

function pieces(words, kept) {
  const found = [];
  words.forEach((word, index) => {
    const changed = !kept.has(index);
    if (found.length && found[found.length - 1][1] === changed) found[found.length - 1][0] += word;
    else found.push([word, changed]);
  });
  return found;
}

/** What differs between the two lines of an edited pair: pieces per part, operands by position. */
function lineDiff(before, after, moved) {
  const [oldAttributes, newAttributes] = wordDiff(before.attributes, after.attributes);
  const [oldTypes, newTypes] = wordDiff(before.types, after.types);
  const [oldName, newName] = wordDiff(before.name, after.name);
  const key = (value, map) => `${map ? map.get(nodeOf(value)) : nodeOf(value)}.${resultOf(value)}`;
  const kept = commonWords(
    before.operands.map((value) => key(value, moved)),
    after.operands.map((value) => key(value, null)),
  );
  const side = (parts, which, attributes, types, name) => ({
    op: before.op !== after.op,
    name,
    attributes,
    types,
    operands: parts.operands.map((_, index) => !kept.some((pair) => pair[which] === index)),
  });
  return [
    side(before, 0, oldAttributes, oldTypes, oldName),
    side(after, 1, newAttributes, newTypes, newName),
  ];
}
