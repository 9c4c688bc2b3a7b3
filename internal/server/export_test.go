package server

// Doors lists every route of the table as "METHOD path", for tests that hold it against the description.
func (s *Server) Doors() []string {
	var doors []string
	for _, r := range s.routes() {
		doors = append(doors, r.method+" "+r.path)
	}
	return doors
}
