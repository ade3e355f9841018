// Reads lines "SEED SKIP COUNT KIND [ARGUMENT]" and writes the outputs of math/rand, a line each.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strings"
)

func draw(r *rand.Rand, kind string, n int64) interface{} {
	switch kind {
	case "int63":
		return r.Int63()
	case "uint64":
		return r.Uint64()
	case "int31":
		return r.Int31()
	case "uint32":
		return r.Uint32()
	case "float64":
		return r.Float64()
	case "intn":
		return r.Intn(int(n))
	case "int63n":
		return r.Int63n(n)
	case "perm":
		return r.Perm(int(n))
	case "shuffle":
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		r.Shuffle(int(n), func(i, j int) { items[i], items[j] = items[j], items[i] })
		return items
	}
	panic(kind)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("Go", strings.TrimPrefix(runtime.Version(), "go"))
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var seed, n int64
		var skip, count int
		var kind string
		fmt.Sscan(lines.Text(), &seed, &skip, &count, &kind, &n)
		r := rand.New(rand.NewSource(seed))
		draws := []string{}
		for i := 0; i < skip+count; i++ {
			made, _ := json.Marshal(draw(r, kind, n))
			if i >= skip {
				draws = append(draws, string(made))
			}
		}
		fmt.Println(strings.Join(draws, " "))
	}
}
