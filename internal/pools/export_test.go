package pools

import "context"

// Decode and Encode convert a division.
var (
	Decode = decode
	Encode = encode
)

// CountAgain counts the nodes whether or not the last count may be used again.
func (r *Reader) CountAgain(ctx context.Context) (*Overview, error) { return r.count(ctx) }
