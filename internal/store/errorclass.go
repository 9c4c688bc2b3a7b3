package store

// ErrorClass says what kind of error made a call to a shared store fail, for counters. It never contains the text of an error.
type ErrorClass string

// The classes.
const (
	ErrorTimeout    ErrorClass = "timeout"     // no answer in time
	ErrorDeadline   ErrorClass = "deadline"    // the caller's own time was over before the store had to answer
	ErrorBreaker    ErrorClass = "breaker"     // the call was not sent: the last ones had failed
	ErrorConnection ErrorClass = "connection"  // the connection could not be made, or was lost
	ErrorTooLate    ErrorClass = "too_late"    // the call arrived after its deadline and did nothing
	ErrorLoading    ErrorClass = "loading"     // the store is still loading its data
	ErrorReadOnly   ErrorClass = "read_only"   // it is a replica, or cannot write
	ErrorFull       ErrorClass = "full"        // it has no memory left
	ErrorCluster    ErrorClass = "cluster"     // a cluster lacks slots, or moves them
	ErrorBusy       ErrorClass = "busy"        // it is busy with a script
	ErrorAuth       ErrorClass = "auth"        // it refuses the credentials
	ErrorReply      ErrorClass = "error_reply" // any other error that it answered, such as that of a script
	ErrorOther      ErrorClass = "other"
)

// ErrorClasses lists every class, for counters by class.
func ErrorClasses() []ErrorClass {
	return []ErrorClass{
		ErrorTimeout, ErrorDeadline, ErrorBreaker, ErrorConnection, ErrorTooLate, ErrorLoading, ErrorReadOnly, ErrorFull, ErrorCluster,
		ErrorBusy,
		ErrorAuth, ErrorReply, ErrorOther,
	}
}
