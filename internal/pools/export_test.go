package pools

import "context"

// CountAgain counts the nodes whether or not the last count may be used again.
func (r *Reader) CountAgain(ctx context.Context) (*Overview, error) { return r.count(ctx) }
