package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// schemaVersion is the version of the JSON of dashboards. A newer Grafana migrates it.
	schemaVersion = 39
	// runbooks is where the runbooks of alerts are, unless the constant of that name is changed.
	runbooks    = "https://github.com/lingua-scheduler/lingua/blob/main/docs/alerts.md"
	tag         = "lingua"
	panelHeight = 8
	statHeight  = 4
	gridWidth   = 24
)

// object is a JSON object whose keys are sorted.
type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

// encode returns the JSON of a dashboard.
func encode(d *dashboard) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // expressions have < and >
	e.SetIndent("", "  ")
	err := e.Encode(object{
		"uid": d.uid(), "title": d.title, "description": d.description, "tags": []string{tag}, "schemaVersion": schemaVersion,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "time": object{"from": "now-1h", "to": "now"}, "timezone": "browser",
		"links": links(), "annotations": annotations(), "templating": object{"list": variables(d)}, "panels": panels(d),
	})
	return out.Bytes(), err
}

// links lead to the other dashboards, with the same time and variables, and to the runbooks.
func links() []object {
	return []object{
		{
			"type": "dashboards", "title": "Lingua", "tags": []string{tag}, "asDropdown": true, "includeVars": true, "keepTime": true,
			"targetBlank": false, "icon": "external link", "tooltip": "The other dashboards of the scheduler",
		},
		{
			"type": "link", "title": "Runbooks", "url": "${runbooks}", "tags": []string{}, "asDropdown": false, "includeVars": false,
			"keepTime":    false,
			"targetBlank": true, "icon": "doc", "tooltip": "What each alert means and what to do",
		},
	}
}

// annotations mark when alerts fired.
func annotations() object {
	return object{"list": []object{{
		"name": "Alerts", "datasource": source, "enable": true, "iconColor": "red",
		"target": object{"refId": "Alerts", "expr": `sum by (alertname) (ALERTS{alertname=~"Lingua.+", alertstate="firing"}) > 0`},
	}}}
}

// variables are what a reader can choose.
func variables(d *dashboard) []object {
	byLabel := func(name, label, query string) object {
		return object{
			"type": "query", "name": name, "label": label, "query": query, "datasource": source, "multi": true, "includeAll": true,
			"allValue": ".+",
			"refresh":  2, "sort": 1, "current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	list := []object{
		{"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"},
		byLabel("instance", "Instance", `label_values(up{job="lingua"}, instance)`),
	}
	if d.byDirection {
		list = append(list, byLabel("direction", "Direction", `label_values(lingua_capacity_slots{job="lingua"}, direction)`))
	}
	return append(list, object{"type": "constant", "name": "runbooks", "label": "Address of the runbooks", "query": runbooks, "hide": 2})
}

// panels lays the panels out: each row below the one before, its panels beside each other.
func panels(d *dashboard) []object {
	var all []object
	y := 0
	add := func(p object, x, width, height int) {
		p["id"] = len(all) + 1
		p["gridPos"] = object{"x": x, "y": y, "w": width, "h": height}
		all = append(all, p)
	}
	for _, r := range d.rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, gridWidth, 1)
		y++
		x, height := 0, 0
		for i := range r.panels {
			p := &r.panels[i]
			width := p.width
			if width == 0 {
				width = gridWidth / len(r.panels)
			}
			if x+width > gridWidth {
				x, y, height = 0, y+height, 0
			}
			own := panelHeight
			if p.kind == stat {
				own = statHeight
			}
			add(p.encode(), x, width, own)
			x, height = x+width, max(height, own)
		}
		y += height
	}
	return all
}

// encode returns the JSON of a panel, without its place.
func (p *panel) encode() object {
	k := p.kind
	if k == "" {
		k = timeseries
	}
	defaults := object{"unit": string(p.unit), "thresholds": p.thresholds(), "color": object{"mode": "palette-classic"}}
	if !p.below {
		defaults["min"] = 0
	}
	if k != timeseries {
		defaults["color"] = object{"mode": "thresholds"}
	}
	if custom := p.custom(k); custom != nil {
		defaults["custom"] = custom
	}
	out := object{
		"type": string(k), "title": p.title, "description": p.description, "datasource": source, "options": options(k),
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "targets": p.targets(k),
	}
	if len(p.alerts) > 0 {
		out["links"] = p.runbooks()
	}
	if k == table {
		out["transformations"] = []object{{"id": "organize",
			"options": object{"excludeByName": object{"Time": true}, "renameByName": object{"Value": p.title}}}}
	}
	return out
}

// runbooks are links to the alerts about what the panel shows.
func (p *panel) runbooks() []object {
	var all []object
	for _, a := range p.alerts {
		name := "Lingua" + a
		all = append(all, object{
			"type": "link", "title": name, "url": "${runbooks}#" + strings.ToLower(name), "tags": []string{}, "asDropdown": false,
			"includeVars": false,
			"keepTime":    false, "targetBlank": true, "icon": "doc", "tooltip": "The runbook of this alert",
		})
	}
	return all
}

func (p *panel) targets(k kind) []object {
	var all []object
	for i, q := range p.queries {
		t := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.promQL(), "editorMode": "code",
			"legendFormat": q.legend}
		if k == timeseries {
			t["range"] = true
		} else {
			t["instant"] = true
		}
		if k == table {
			t["format"] = "table"
		}
		all = append(all, t)
	}
	return all
}

// thresholds are green, then orange and red at the panel's limits. A panel without limits is green.
func (p *panel) thresholds() object {
	steps := []object{{"color": "green", "value": nil}}
	if p.below {
		steps[0]["color"] = "red"
		if p.crit < p.warn {
			steps = append(steps, object{"color": "orange", "value": p.crit})
		}
		steps = append(steps, object{"color": "green", "value": p.warn})
	} else {
		if p.warn > 0 {
			steps = append(steps, object{"color": "orange", "value": p.warn})
		}
		if p.crit > 0 {
			steps = append(steps, object{"color": "red", "value": p.crit})
		}
	}
	return object{"mode": "absolute", "steps": steps}
}

// custom are the settings of a field that only some kinds have.
func (p *panel) custom(k kind) object {
	switch k {
	case timeseries:
		c := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
			"stacking": object{"mode": "none"}}
		if p.stacked {
			c["stacking"], c["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
		}
		if p.warn > 0 || p.crit > 0 {
			c["thresholdsStyle"] = object{"mode": "dashed"}
		}
		return c
	case table:
		return object{"align": "auto", "cellOptions": object{"type": "auto"}, "inspect": false}
	}
	return nil
}

// options are the settings of each kind.
func options(k kind) object {
	reduce := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch k {
	case timeseries:
		return object{
			"legend":  object{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case stat:
		return object{
			"reduceOptions": reduce, "orientation": "auto", "colorMode": "value", "graphMode": "none", "justifyMode": "auto",
			"textMode":   "auto",
			"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		}
	case bargauge:
		return object{
			"reduceOptions": reduce, "orientation": "horizontal", "displayMode": "basic", "valueMode": "color", "namePlacement": "auto",
			"showUnfilled": true,
			"sizing":       "auto", "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300,
			"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
		}
	case table:
		return object{"showHeader": true, "frameIndex": 0, "cellHeight": "sm"}
	}
	panic(fmt.Sprintf("there are no options for %s", k))
}
