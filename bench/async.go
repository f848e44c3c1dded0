package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// asyncProgram waits 20 ms for each item, 64 of them at once, as one does that asks a service.
const asyncProgram = `import asyncio, stint

async def work(item):
    await asyncio.sleep(0.02)
    return {"n": len(str(item))}

stint.serve(stint.each(work), concurrency=64)
`

// bareAsyncProgram does the same without stint.
const bareAsyncProgram = `import asyncio, json, sys

async def work(item):
    await asyncio.sleep(0.02)
    return {"n": len(str(item))}

async def main():
    gate = asyncio.Semaphore(64)

    async def one(line):
        async with gate:
            return json.dumps(await work(json.loads(line)))

    with open(sys.argv[1]) as lines, open(sys.argv[2], "w") as out:
        for result in await asyncio.gather(*[one(line) for line in lines]):
            out.write(result + "\n")

asyncio.run(main())
`

// asyncRow compares a Python program with an event loop with one that has no worker.
func (b *bench) asyncRow(limit string, items int) row {
	program := func(name, text string) string {
		path := filepath.Join(b.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			fmt.Fprintln(os.Stderr, "bench: making data:", err)
		}
		return path
	}
	return row{
		name: "async Python, 64 at once", limit: limit, before: b.fresh,
		stint: func() *exec.Cmd {
			cmd := exec.Command(b.stint, "run", "--quiet", "-j1", "--serve", "python3 "+program("async.py", asyncProgram), b.lines(items),
				"-o", filepath.Join(b.dir, "stint.out"), "--state", filepath.Join(b.dir, "state"))
			cmd.Dir = b.dir
			return cmd
		},
		peer: func() *exec.Cmd {
			return exec.Command("python3", program("bare_async.py", bareAsyncProgram), b.lines(items), filepath.Join(b.dir, "peer.out"))
		},
		note: func() string { return "against 20 lines of asyncio" },
	}
}
