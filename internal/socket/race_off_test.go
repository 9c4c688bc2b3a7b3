//go:build !race

package socket_test

const raceDetector = false
