package server

// Doors lists every route of the table as "METHOD path", for tests that hold it against the description.
func (s *Server) Doors() []string {
	var doors []string
	for _, r := range s.routes() {
		doors = append(doors, r.method+" "+r.path)
	}
	return doors
}

// WhyNot is what is said of a dead letter with which something went wrong.
func (s *Server) WhyNot(err error) string { return s.noLetter("dlq", "i/1-1", err).Detail }
