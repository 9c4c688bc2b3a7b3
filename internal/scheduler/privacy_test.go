package scheduler_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestTextOfOtherInstances: an instance that asks others withholds what was said from pages, although the others do not know that a page asks.
func TestTextOfOtherInstances(t *testing.T) {
	t.Parallel()
	instances := startCluster(t, redistest.Start(t).URL(), keyedConfig(t, newPeerSecret), nil)
	finishJobs(t, instances[0], "n1")
	address := instances[1].peer.URL + "/v1/jobs?state=DONE"
	waitUntil(t, "the jobs of the other instance", waitLimit, func() bool {
		_, body := getAs(t, address, keyOfOperator, nil)
		return strings.Count(string(body), "text of ") == 2
	})
	page := http.Header{"Sec-Fetch-Site": {"same-origin"}}
	waitUntil(t, "the jobs of the other instance for a page", waitLimit, func() bool {
		_, body := getAs(t, address, keyOfOperator, page)
		if strings.Contains(string(body), "text of ") {
			t.Fatalf("a page: %s", body)
		}
		return strings.Count(string(body), "result_withheld") == 2
	})
	if _, body := getAs(t, address+"&text=false", keyOfOperator, nil); strings.Contains(string(body), "text of ") {
		t.Errorf("without the text: %s", body)
	}
}
