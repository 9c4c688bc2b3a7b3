package config

// problem is one thing that is wrong with a configuration.
type problem struct {
	key  string   // as in the file, such as server.port, or what it is called where it was set
	with []string // the keys it was held against
	text string   // what is wrong and what to do
}

func (p *problem) String() string { return p.key + ": " + p.text }

// against names the keys that a key was held against.
func (p *problem) against(keys ...string) { p.with = keys }
