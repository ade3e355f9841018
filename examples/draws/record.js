// Reads lines "SEED SKIP COUNT KIND [ARGUMENT]" and writes the outputs of Math.random, a line each. The seed is a flag
// of the process, so each line has a process of its own, and a fresh context in it.
const { execFileSync } = require("child_process");

if (process.argv[2] === "--version") {
  console.log(`Node.js ${process.versions.node} (V8 ${process.versions.v8})`);
} else {
  for (const line of require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const [seed, skip, count, kind, n] = line.split(" ");
    const draw = { float: "Math.random()", floor: `Math.floor(Math.random() * ${n})` }[kind];
    const program = `const all = []; for (let i = 0; i < ${+skip + +count}; i++) all.push(${draw}); all.slice(${skip}).join(" ")`;
    const child = `console.log(require("vm").runInNewContext(${JSON.stringify(program)}))`;
    process.stdout.write(execFileSync(process.execPath, [`--random-seed=${seed}`, "-e", child]));
  }
}
