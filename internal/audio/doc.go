// Package audio holds and describes the audio of jobs: the buffer in which an instance keeps it until its jobs have ended, the
// formats and their checks, the chunks in which nodes receive it, and the signed URLs at which it is fetched.
package audio
