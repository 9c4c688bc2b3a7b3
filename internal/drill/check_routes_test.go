package drill

// places is where somebody was connected, in order.
type places []route

// placesOf follows everybody's connections.
func placesOf(entries []entry, by routes) map[string]places {
	all := make(map[string]places)
	for _, e := range entries {
		if e.What == connected {
			all[e.Who] = append(all[e.Who], route{e.At, by.of(e.Code, e.At)})
		}
	}
	return all
}

// at is where somebody was at a moment, empty if that is not known.
func (p places) at(moment int64) string {
	where := ""
	for _, r := range p {
		if r.at <= moment {
			where = r.instance
		}
	}
	return where
}

// countCrossed counts the results that went from one instance to another. An instance that can give a job to its own nodes
// only looks well as long as it has some, so without this a cluster could pass that is none.
func (c *checker) countCrossed() {
	people, crew := placesOf(c.sessions, c.routes[0]), placesOf(c.nodes, c.routes[1])
	type work struct {
		attempt
		node string
	}
	when := make(map[work]int64)
	for _, e := range c.nodes {
		if e.What == begun {
			when[work{attempt{e.Job, e.Attempt}, e.Who}] = e.At
		}
	}
	for _, e := range c.sessions {
		if e.What != terminal || !e.OK {
			continue
		}
		at := when[work{attempt{e.Job, e.Attempt}, e.Node}]
		from, to := crew[e.Node].at(at), people[e.Who].at(at)
		if from == "" || to == "" {
			continue
		}
		if c.placed++; from != to {
			c.crossed++
		}
	}
	if c.apart && c.crossed == 0 {
		c.breaks(together, "%d results", c.results)
	}
}
