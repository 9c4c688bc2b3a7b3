package main

import "strings"

// several are addresses of instances of one scheduler, for those who connect and stay: which of them they reach does not
// matter, and they go on at another when they lose one.
type several struct {
	Server []string `help:"The scheduler's address; several, with commas or by saying it again, where no load balancer stands in front of its instances. LINGUA_URL stands for it." default:"http://127.0.0.1:5010" placeholder:"URL"`
}

// addresses are where to connect.
func (s *several) addresses() ([]string, error) {
	all := make([]string, len(s.Server))
	for i, given := range s.Server {
		at, err := addressOf(given)
		if err != nil {
			return nil, err
		}
		all[i] = at.String()
	}
	return all, nil
}

// named is what they are called on the screen, where a password in one has no business.
func (s *several) named() string {
	names := make([]string, len(s.Server))
	for i, given := range s.Server {
		if at, err := addressOf(given); err == nil {
			names[i] = at.Redacted()
		}
	}
	return strings.Join(names, ", ")
}
