// Writes a list of objects as JSON and reads it again, and makes many buffers.
let rows = [...Array(150000).keys()].map(i => ({id: i, name: "row " + i, tags: ["a", String(i)]}));
for (let i = 0; i < 3; i++) rows = JSON.parse(JSON.stringify(rows));
console.log(rows.length, Buffer.concat(rows.map(r => Buffer.from(r.name))).length);
