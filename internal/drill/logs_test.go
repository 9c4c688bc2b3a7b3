package drill

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

const crashed = "a process that ended by itself, panicked or raced"

// alarms are what no log may hold.
var alarms = []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "handler panicked"}

// alarmed looks for alarms in a log.
func alarmed(path string) []violation {
	f, err := os.Open(path)
	if err != nil {
		return []violation{{crashed, err.Error()}}
	}
	defer f.Close()
	var broken []violation
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		for _, alarm := range alarms {
			if strings.Contains(lines.Text(), alarm) {
				broken = append(broken, violation{crashed, fmt.Sprintf("%s:%d: %.300s", path, n, lines.Text())})
			}
		}
	}
	return broken
}

// crashes looks at all processes: nobody has ended who was not told to, and no log holds an alarm.
func (c *cluster) crashes(drivers ...*driver) []violation {
	var broken []violation
	for _, i := range c.instances {
		if !i.proc.Alive() {
			broken = append(broken, violation{crashed, fmt.Sprintf("instance %s: %v", i.name, i.proc.How)})
		}
		broken = append(broken, alarmed(i.log)...)
	}
	for _, d := range drivers {
		broken = append(broken, alarmed(d.log)...)
	}
	return broken
}
