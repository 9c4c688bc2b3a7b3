package stats

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestServicesOfTheCatalogInStats checks that the statistics have the names and versions of the catalog, and list what no node has.
func TestServicesOfTheCatalogInStats(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	n := &core.Node{
		ID: "n1", Epoch: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://127.0.0.1:9/",
			Capability: core.Capability{Semantic: []core.Lang{"en", "es"}, AnyPair: true, Services: []core.Service{
				{ID: "asr-en", Version: "1.9", Type: "asr", Status: core.ServiceReady},
				{ID: "private", Version: "7", Type: "nmt", Status: core.ServiceStopped},
			}}},
	}
	n.Normalise()
	f.Update(store.NodeStatus{Node: n})
	catalog := []health.HubService{
		{ServiceID: "asr-en", Name: "English recognition", Type: "asr", Versions: []string{"2.0", "1.9"}},
		{ServiceID: "tts-es", Name: "Spanish speech", Type: "tts", Versions: []string{"1.0"}},
	}
	got := surveyFleet(f, catalog, nil).compute
	want := wire.StatsCompute{
		Services: []wire.ServiceUse{
			{ServiceID: "asr-en", Version: "1.9", Type: "asr", Installed: 1, Ready: 1, Slots: 4, Name: "English recognition", LatestVersion: "2.0"},
			{ServiceID: "private", Version: "7", Type: "nmt", Installed: 1},
		},
		Models:       []wire.ModelUse{},
		NotInstalled: []wire.CatalogService{{ServiceID: "tts-es", Listed: true, Name: "Spanish speech", Type: "tts", Versions: []string{"1.0"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is installed (-want +got):\n%s", diff)
	}

	catalog = nil
	for i := range maxListed + 7 {
		catalog = append(catalog, health.HubService{ServiceID: fmt.Sprintf("s%04d", i)})
	}
	if got := surveyFleet(f, catalog, nil).compute; len(got.NotInstalled) != maxListed || got.OtherNotInstalled != 7 {
		t.Errorf("%d services that no node has are listed and %d others counted, want %d and 7", len(got.NotInstalled), got.OtherNotInstalled, maxListed)
	}
}
