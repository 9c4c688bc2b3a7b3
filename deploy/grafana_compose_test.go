package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// grafanaDatasources is a file of provisioned data sources.
type grafanaDatasources struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, UID, Type, Access, URL string
		IsDefault                    bool `yaml:"isDefault"`
		Editable                     bool
		JSONData                     struct {
			HTTPMethod   string `yaml:"httpMethod"`
			TimeInterval string `yaml:"timeInterval"`
		} `yaml:"jsonData"`
	}
}

// grafanaProviders is a file of provisioned dashboards.
type grafanaProviders struct {
	APIVersion int `yaml:"apiVersion"`
	Providers  []struct {
		Name, Type, Folder string
		DisableDeletion    bool `yaml:"disableDeletion"`
		AllowUIUpdates     bool `yaml:"allowUiUpdates"`
		Options            struct{ Path string }
	}
}

// TestGrafanaIsProvisioned checks that Grafana starts with all dashboards and with Prometheus, and lets in nobody without a password.
func TestGrafanaIsProvisioned(t *testing.T) {
	t.Parallel()
	c := compose(t)
	g := c.Services["grafana"]
	if _, tag, _ := strings.Cut(g.Image, ":"); strings.Count(tag, ".") != 2 {
		t.Errorf("its image %s has no exact version", g.Image)
	}

	var sources grafanaDatasources
	decode(t, "grafana/provisioning/datasources/prometheus.yaml", &sources)
	var scrape scraping
	decode(t, "prometheus/prometheus.yml", &scrape)
	if len(sources.Datasources) != 1 {
		t.Fatalf("%d data sources, want one", len(sources.Datasources))
	}
	source := sources.Datasources[0]
	host, port, _ := strings.Cut(strings.TrimPrefix(source.URL, "http://"), ":")
	if p := c.Services[host]; source.Type != "prometheus" || !source.IsDefault || !strings.HasSuffix(strings.Join(p.Ports, " "), ":"+port) {
		t.Errorf("the data source is %+v, and %s publishes %v", source, host, p.Ports)
	}
	if !slices.Contains(c.Services[host].Networks, g.Networks[0]) {
		t.Errorf("Grafana is in %v and cannot reach %s", g.Networks, host)
	}
	if source.JSONData.TimeInterval != scrape.Global.ScrapeInterval {
		t.Errorf("the interval of the data source is %s, that of Prometheus %s", source.JSONData.TimeInterval, scrape.Global.ScrapeInterval)
	}

	var providers grafanaProviders
	decode(t, "grafana/provisioning/dashboards/lingua.yaml", &providers)
	if len(providers.Providers) != 1 {
		t.Fatalf("%d providers, want one", len(providers.Providers))
	}
	dir := providers.Providers[0].Options.Path
	for _, d := range grafanaDashboards(t) {
		if mount := "./" + d.file + ":" + dir + "/" + filepath.Base(d.file) + ":ro"; !slices.Contains(g.Volumes, mount) {
			t.Errorf("%s is not mounted", mount)
		}
	}
	for _, part := range []string{"datasources", "dashboards"} {
		if mount := "./grafana/provisioning/" + part + ":/etc/grafana/provisioning/" + part + ":ro"; !slices.Contains(g.Volumes, mount) {
			t.Errorf("%s is not mounted", mount)
		}
	}
	if home := g.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home != dir+"/overview.json" {
		t.Errorf("its first page is %s", home)
	}

	_, password, _ := strings.Cut(strings.TrimSpace(text(t, filepath.Join(secrets(t), "grafana.env"))), "GF_SECURITY_ADMIN_PASSWORD=")
	if g.Environment["GF_AUTH_ANONYMOUS_ENABLED"] != "false" || g.Environment["GF_USERS_ALLOW_SIGN_UP"] != "false" || !slices.Contains(g.EnvFile, "secrets/grafana.env") || len(password) < 32 {
		t.Errorf("it lets in users without a password, or its password has %d characters", len(password))
	}
}

// TestKeysAreAddedOnce checks that keys.sh adds the password of Grafana to keys that were made before there was one, and changes nothing else.
func TestKeysAreAddedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(secrets(t))); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(dir, "grafana.env")
	if err := os.Remove(password); err != nil {
		t.Fatal(err)
	}
	var after string
	for range 2 {
		if out, err := exec.CommandContext(t.Context(), "sh", "keys.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if before := after; text(t, password) != before && before != "" {
			t.Error("the second run changes the password of Grafana")
		}
		after = text(t, password)
	}
	if info, err := os.Stat(password); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(after, "GF_SECURITY_ADMIN_PASSWORD=") {
		t.Errorf("it has mode %v and the text of %d bytes: %v", info.Mode(), len(after), err)
	}
	for _, name := range []string{"lingua.toml", "operator.key", "redis.key"} {
		if text(t, filepath.Join(dir, name)) != text(t, filepath.Join(secrets(t), name)) {
			t.Errorf("%s was changed", name)
		}
	}
}
