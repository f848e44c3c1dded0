package records_test

import (
	"fmt"
	"strings"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
)

// One reads a source's head, cuts what follows into ranges, and reads each range by itself, later
// and somewhere else.
func Example() {
	const input = "city,note\nOslo,\"cold,\nwhite\"\nRome,warm\nBonn\n"

	head, err := records.Look(strings.NewReader(input), wire.Shape{Format: records.CSV})
	if err != nil {
		panic(err)
	}
	shape, begin := head.Shape, head.Start
	cutter := records.NewCutter(strings.NewReader(input[begin:]), shape)
	for {
		cut, err := cutter.Next(2, 1<<20)
		if err != nil {
			break // io.EOF
		}
		fmt.Printf("from byte %d: %d\n", begin, cut.Count)
		show(input[begin:begin+cut.Length], shape)
		begin += cut.Length
	}
	// Output:
	// from byte 10: 2
	//   {"city":"Oslo","note":"cold,\nwhite"}
	//   {"city":"Rome","note":"warm"}
	// from byte 39: 1
	//   the item has 1 field, the header has 2
}

func show(part string, shape wire.Shape) {
	reader := records.NewReader(strings.NewReader(part), shape)
	var chunk records.Chunk
	for reader.Read(&chunk, 100, 1<<20) == nil {
		for i := range chunk.Items {
			if text, err := records.AppendJSON(&shape, nil, &chunk.Items[i]); err != nil {
				fmt.Println(" ", err)
			} else {
				fmt.Printf("  %s\n", text)
			}
		}
	}
}
