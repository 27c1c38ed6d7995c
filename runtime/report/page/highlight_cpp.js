// Light colouring of Ascend C: comments, strings, numbers, keywords, names of the API.

const CPP_TOKEN = new RegExp(
  [
    "(?<comment>\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$))",
    '(?<string>"(?:[^"\\\\\\n]|\\\\.)*"?)',
    "(?<macro>^[ \\t]*#[^\\n]*)",
    "(?<amount>\\b(?:0x[0-9a-fA-F]+|\\d[\\d.]*(?:e[+-]?\\d+)?)[uUlLfF]*\\b)",
    "(?<keyword>\\b(?:auto|bool|break|case|class|const|constexpr|continue|default|do|else|enum|extern|float|for|half|if|inline|int|int8_t|int16_t|int32_t|int64_t|namespace|private|public|return|signed|sizeof|static|struct|switch|template|this|typename|uint8_t|uint16_t|uint32_t|uint64_t|unsigned|using|void|while|bfloat16_t|__global__|__aicore__|__gm__)\\b)",
    "(?<api>\\b(?:[A-Z][A-Za-z0-9]+(?=\\s*[(<])|(?:AscendC|matmul)(?=::)))",
  ].join("|"),
  "gm",
);

/** Spans and texts of a source, line by line: a list of lists. */
function cppLines(text) {
  const lines = [[]];
  const push = (kind, piece) => {
    piece.split("\n").forEach((part, index) => {
      if (index) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  };
  let at = 0;
  for (const match of text.matchAll(CPP_TOKEN)) {
    push("", text.slice(at, match.index));
    push(
      Object.keys(match.groups).find((kind) => match.groups[kind] !== undefined),
      match[0],
    );
    at = match.index + match[0].length;
  }
  push("", text.slice(at));
  if (lines.length > 1 && !lines[lines.length - 1].length) lines.pop();
  return lines;
}
