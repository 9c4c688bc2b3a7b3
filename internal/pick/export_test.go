package pick

// Survey surveys the eligible pools of the route of a selection.
func (s *Selection) Survey() Survey { return s.picker.Survey(s.query, s.order.route, Eligible) }
