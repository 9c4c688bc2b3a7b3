package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Every histogram has classic buckets, which alerts and older versions of Prometheus use, and a native histogram beside them, which only a
// scrape in the protobuf format contains.
const (
	// nativeBucketFactor is by how much one native bucket is wider than the one before, at most: a quantile is at most 10 % off.
	nativeBucketFactor = 1.1
	// nativeMaxBuckets bounds the memory of one series. With more buckets it is reset, or, if it was reset within nativeMinReset, its
	// buckets are made wider.
	nativeMaxBuckets = 100
	nativeMinReset   = time.Hour
)

func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeBucketFactor, NativeHistogramMaxBucketNumber: nativeMaxBuckets,
		NativeHistogramMinResetDuration: nativeMinReset,
	}
}
