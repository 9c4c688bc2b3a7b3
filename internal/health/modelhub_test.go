package health

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheckList(t *testing.T) {
	t.Parallel()
	valid := HubService{ServiceID: "asr", Name: "名称", Type: "asr", Versions: []string{"2", "1"}}
	change := func(fn func(*HubService)) []HubService {
		s := valid
		fn(&s)
		return []HubService{{ServiceID: "first"}, s}
	}
	var tooMany []HubService
	for i := range MaxServices + 1 {
		tooMany = append(tooMany, HubService{ServiceID: fmt.Sprint(i)})
	}
	long := strings.Repeat("x", MaxText+1)
	for name, c := range map[string]struct {
		services []HubService
		want     string // in the error; empty: none
	}{
		"valid":             {change(func(*HubService) {}), ""},
		"only an id":        {[]HubService{{ServiceID: "asr"}}, ""},
		"as many as can be": {tooMany[1:], ""},
		"none":              {nil, "no services"},
		"too many":          {tooMany, "10001 services"},
		"twice":             {[]HubService{valid, valid}, "services[1]: the service_id is listed twice"},
		"no id":             {change(func(s *HubService) { s.ServiceID = "" }), "services[1]: the service_id is missing"},
		"a long id":         {change(func(s *HubService) { s.ServiceID = long }), "longer than"},
		"a long name":       {change(func(s *HubService) { s.Name = long }), "longer than"},
		"a long type":       {change(func(s *HubService) { s.Type = long }), "longer than"},
		"a long version":    {change(func(s *HubService) { s.Versions = []string{long} }), "longer than"},
		"an empty version":  {change(func(s *HubService) { s.Versions = []string{""} }), "a version is empty"},
		"many versions":     {change(func(s *HubService) { s.Versions = make([]string, MaxVersions+1) }), "101 versions"},
		"a control":         {change(func(s *HubService) { s.Name = "a\x1b[2J" }), "control characters"},
	} {
		list := HubList{Services: c.services}
		err := list.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "xxx") || strings.Contains(err.Error(), "2J")) {
			t.Errorf("%s: the error repeats what was sent: %v", name, err)
		}
	}
}
