package health

// MaxNames bounds each count by name. Callers choose languages and nodes declare them, so directions need a bound.
const MaxNames = 200

// Other is the name under which a bounded count sums up what has no name of its own.
const Other = "other"
