package server_test

import (
	"fmt"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

// badFields makes cases for one path, each with one change to a valid body.
func badFields(path string, good object, rows ...badRequest) []badRequest {
	for i := range rows {
		b := &rows[i]
		change := b.body.(object)
		b.path, b.body = path, good.with(change)
		if b.name == "" {
			b.name = strings.TrimPrefix(fmt.Sprintf("%.60v", fmt.Sprint(change)), "map")
		}
		b.name = path + " " + b.name
		if b.code == "" {
			b.code = wire.InvalidRequest
		}
	}
	return rows
}

var (
	long   = strings.Repeat("x", 129)
	badIDs = []string{"a b", "../etc", "naïve", "a/b", "a\nb", "a\x00b", long}
)

// null is JSON's null: object.with takes nil as "remove the field".
var null = (*int)(nil)

// badBodies are bodies that are no JSON object, or too large or too deep, for every path that takes one.
func badBodies(f *fixture) []badRequest {
	var rows []badRequest
	bodies := map[string]object{
		"/v1/node/register": nodeDeclaration(nil), "/v1/node/heartbeat": {"node_id": "n1"}, "/v1/node/model_not_available": {"node_id": "n1", "service_id": "s"},
		"/v1/dispatch/f2f": dispatchBody(nil), "/v1/dispatch/explain": dispatchBody(nil),
		"/v1/job/ack": f.n1.reportBody(f.heldJob), "/v1/job/done": f.n1.reportBody(f.heldJob), "/v1/job/fail": f.n1.reportBody(f.heldJob),
	}
	for path, good := range bodies {
		text := string(encode(f.t, good))
		for _, contentType := range []string{"none", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonp", "json", ";"} {
			rows = append(rows, badRequest{
				name: path + " content type " + contentType, path: path, contentType: contentType, body: text,
				code: wire.UnsupportedMediaType, field: anyField, detail: "application/json",
			})
		}
		rows = append(rows, badRequest{
			name: path + " too large", path: path, body: text + strings.Repeat(" ", wire.MaxBody), code: wire.PayloadTooLarge, field: anyField, detail: "1048576",
		})
		for name, body := range map[string]string{
			"empty": "", "blank": " \n\t", "not JSON": "hello", "truncated": text[:len(text)-1], "two": text + text, "garbage after": text + "x",
			"an array": "[" + text + "]", "a string": `"hello"`, "a number": "1", "true": "true", "NaN": strings.TrimSuffix(text, "}") + `,"current_load":{"cpu":NaN}}`,
			"too deep":             strings.TrimSuffix(text, "}") + `,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}",
			"far too deep":         strings.Repeat(`{"x":`, 100_000) + "1" + strings.Repeat("}", 100_000),
			"deep and never ended": strings.Repeat("[", 500_000),
			"single quotes":        strings.ReplaceAll(text, `"`, `'`), "a comment": "/* */" + text, "null bytes": "\x00\x00",
		} {
			rows = append(rows, badRequest{name: path + " " + name, path: path, contentType: "application/json", body: body, code: wire.InvalidRequest, field: anyField})
		}
	}
	return rows
}

// badDeclarations are invalid declarations of a node, for registrations and heartbeats alike.
func badDeclarations() []badRequest {
	many := make([]string, 4097)
	for i := range many {
		many[i] = "x"
	}
	return []badRequest{
		{body: object{"health": "fine"}, field: "health", detail: "ready, degraded, draining or offline"},
		{body: object{"health": "READY"}, field: "health"},
		{body: object{"health": 5}, field: "health", detail: "must be a string"},
		{body: object{"health": object{}}, field: "health", detail: "must be a string"},
		{body: object{"semantic_langs": []string{}}, field: "semantic_langs", detail: "must not be empty"},
		{body: object{"semantic_langs": "en"}, field: "semantic_langs", detail: "must be an array"},
		{body: object{"semantic_langs": []any{1}}, field: "semantic_langs", detail: "must be a string"},
		{body: object{"semantic_langs": []string{"en", "not a language"}}, field: "semantic_langs[1]", detail: "BCP-47"},
		{body: object{"semantic_langs": []string{""}}, field: "semantic_langs[0]", detail: "BCP-47"},
		{body: object{"semantic_langs": []string{"und"}}, field: "semantic_langs[0]"},
		{body: object{"asr_langs": []string{"en_"}}, field: "asr_langs[0]"},
		{body: object{"tts_langs": []string{"mul"}}, field: "tts_langs[0]"},
		{body: object{"tts_langs": []string{long}}, field: "tts_langs[0]"},
		{body: object{"nmt_pairs": [][]string{{"en"}}}, field: "nmt_pairs[0]", detail: "[source, target], not 1"},
		{body: object{"nmt_pairs": [][]string{{"en", "zh"}, {"en", "zh", "de"}}}, field: "nmt_pairs[1]", detail: "[source, target], not 3"},
		{body: object{"nmt_pairs": [][]string{{}}}, field: "nmt_pairs[0]"},
		{body: object{"nmt_pairs": [][]string{{"en", "en"}}}, field: "nmt_pairs[0]", detail: "same language"},
		{body: object{"nmt_pairs": [][]string{{"zh", "cmn"}}}, field: "nmt_pairs[0]", detail: "same language"},
		{body: object{"nmt_pairs": [][]string{{"en", "?"}}}, field: "nmt_pairs[0][1]"},
		{body: object{"nmt_pairs": [][]string{{"?", "en"}}}, field: "nmt_pairs[0][0]"},
		{body: object{"nmt_pairs": []string{"en-zh"}}, field: "nmt_pairs", detail: "must be an array"},
		{body: object{"nmt_pairs": "any"}, field: "nmt_pairs", detail: "must be an array"},
		{body: object{"max_concurrent_jobs": -1}, field: "max_concurrent_jobs", detail: "between 0 and 10000"},
		{body: object{"max_concurrent_jobs": 10_001}, field: "max_concurrent_jobs", detail: "between 0 and 10000"},
		{body: object{"max_concurrent_jobs": int64(1) << 62}, field: "max_concurrent_jobs"},
		{body: object{"max_concurrent_jobs": 1e30}, field: "max_concurrent_jobs", detail: "whole number"},
		{body: object{"max_concurrent_jobs": 1.5}, field: "max_concurrent_jobs", detail: "whole number"},
		{body: object{"max_concurrent_jobs": "2"}, field: "max_concurrent_jobs", detail: "whole number"},
		{body: object{"current_jobs": -1}, field: "current_jobs"},
		{body: object{"current_jobs": 100_001}, field: "current_jobs"},
		{body: object{"current_jobs": "none"}, field: "current_jobs"},
		{body: object{"current_load": object{"cpu": 1.01}}, field: "current_load.cpu", detail: "between 0 and 1"},
		{body: object{"current_load": object{"gpu": -0.01}}, field: "current_load.gpu", detail: "between 0 and 1"},
		{body: object{"current_load": object{"memory": 1e308}}, field: "current_load.memory", detail: "between 0 and 1"},
		{body: object{"current_load": object{"cpu": "NaN"}}, field: "current_load.cpu", detail: "must be a number"},
		{body: object{"current_load": 0.5}, field: "current_load", detail: "must be an object"},
		{body: object{"capability_by_type": object{"asr": "yes"}}, field: "capability_by_type.asr", detail: "true or false"},
		{body: object{"capability_by_type": []string{"asr"}}, field: "capability_by_type", detail: "must be an object"},
		{body: object{"installed_models": []string{"m", ""}}, field: "installed_models[1]"},
		{body: object{"installed_models": []string{strings.Repeat("m", 257)}}, field: "installed_models[0]"},
		{name: "too many models", body: object{"installed_models": many}, field: "installed_models", detail: "4096"},
		{body: object{"features": []string{""}}, field: "features[0]"},
		{body: object{"features": "tone"}, field: "features"},
		{body: object{"installed_services": []object{{"service_id": "s", "status": "fine"}}}, field: "installed_services[0].status", detail: "ready, downloading"},
		{body: object{"gpu_usage": "high"}, field: "gpu_usage"},
		{body: object{"language_capabilities": object{"semantic_langs": "en"}}, field: "language_capabilities.semantic_langs", detail: "array"},
		{body: object{"installed_services": []object{{"status": "ready"}}}, field: "installed_services[0].service_id"},
		{body: object{"installed_services": []object{{"service_id": "s", "status": "ready", "version": strings.Repeat("1", 257)}}}, field: "installed_services[0].version"},
		{body: object{"installed_services": []object{{"service_id": "s\x00", "status": "ready"}}}, field: "installed_services[0].service_id", detail: "control characters"},
		{body: object{"region": "e\x00u"}, field: "region", detail: "must be 1 to 128 of"},
		{body: object{"installed_services": []int{1}}, field: "installed_services"},
		{body: object{"region": strings.Repeat("r", 257)}, field: "region"},
		{body: object{"zone": strings.Repeat("z", 257)}, field: "zone"},
		{body: object{"region": 1}, field: "region", detail: "must be a string"},
		{body: object{"tenant_id": "a b"}, field: "tenant_id"},
		{body: object{"callback_url": "http://192.0.2.1:9000/jobs"}, field: "callback_url", detail: "callback.allowed_targets"},
		{body: object{"callback_url": "http://10.0.0.1/"}, field: "callback_url", detail: "callback.allowed_targets"},
		{body: object{"callback_url": "http://0.0.0.0/"}, field: "callback_url", detail: "callback.allowed_targets"},
		{body: object{"callback_url": "http://[2001:db8::1]/"}, field: "callback_url", detail: "callback.allowed_targets"},
		{body: object{"callback_url": "http://[::ffff:192.0.2.1]/"}, field: "callback_url", detail: "callback.allowed_targets"},
		{body: object{"callback_url": "http://169.254.169.254/latest/meta-data"}, field: "callback_url", detail: "callback.allowed_targets"},
		{body: object{"callback_url": "ftp://127.0.0.1/"}, field: "callback_url", detail: "http:// or https://"},
		{body: object{"callback_url": "file:///etc/passwd"}, field: "callback_url"},
		{body: object{"callback_url": "127.0.0.1:9000"}, field: "callback_url"},
		{body: object{"callback_url": "/jobs"}, field: "callback_url", detail: "absolute URL"},
		{body: object{"callback_url": "http://"}, field: "callback_url"},
		{body: object{"callback_url": "http://user:password@127.0.0.1/"}, field: "callback_url", detail: "user name or password"},
		{body: object{"callback_url": "http://127.0.0.1/#top"}, field: "callback_url", detail: "fragment"},
		{body: object{"callback_url": "http://127.0.0.1/" + strings.Repeat("x", 2048)}, field: "callback_url", detail: "2048"},
		{body: object{"callback_url": 9000}, field: "callback_url"},
		{body: object{"active": []object{{"attempt_id": 1}}}, field: "active[0].job_id"},
		{body: object{"active": []object{{"job_id": "j", "attempt_id": 0}}}, field: "active[0].attempt_id"},
		{body: object{"active": []object{{"job_id": "j", "attempt_id": 1}, {"job_id": "a b", "attempt_id": 1}}}, field: "active[1].job_id"},
		{body: object{"active": []string{"j"}}, field: "active"},
		{body: object{"active": "all"}, field: "active", detail: "must be an array"},
	}
}

func badRegistrations() []badRequest {
	rows := append(badDeclarations(),
		badRequest{body: object{"semantic_langs": nil}, field: "semantic_langs", detail: "is missing"},
		badRequest{body: object{"semantic_langs": null}, field: "semantic_langs", detail: "is missing"},
		badRequest{body: object{"node_id": 5}, field: "node_id", detail: "must be a string"},
	)
	for _, id := range badIDs {
		rows = append(rows, badRequest{name: fmt.Sprintf("node_id %q", id), body: object{"node_id": id}, field: "node_id"})
	}
	return badFields("/v1/node/register", nodeDeclaration(object{"node_id": "n1"}), rows...)
}

func badHeartbeats(f *fixture) []badRequest {
	rows := append(badDeclarations(),
		badRequest{body: object{"node_id": nil}, field: "node_id", detail: "is missing"},
		badRequest{body: object{"node_id": "unknown"}, code: wire.NotFound, field: "node_id", detail: "register again"},
		badRequest{body: object{"epoch": f.n1.epoch - 1}, code: wire.StaleEpoch, field: "epoch"},
		badRequest{body: object{"epoch": f.n1.epoch + 1}, code: wire.NotFound, field: "node_id"},
		badRequest{body: object{"epoch": f.n2.epoch}, code: wire.NotFound, field: "node_id"},
		badRequest{body: object{"epoch": 1, "health": "offline", "max_concurrent_jobs": 9}, code: wire.StaleEpoch, field: "epoch"},
		badRequest{body: object{"epoch": 0}, field: "epoch"},
		badRequest{body: object{"epoch": -1}, field: "epoch"},
		badRequest{body: object{"epoch": "1"}, field: "epoch", detail: "whole number"},
		badRequest{body: object{"hb_seq": 0}, field: "hb_seq"},
		badRequest{body: object{"hb_seq": -1}, field: "hb_seq", detail: "whole number of 0 or more"},
	)
	for _, id := range badIDs {
		rows = append(rows, badRequest{name: fmt.Sprintf("node_id %q", id), body: object{"node_id": id}, field: "node_id"})
	}
	return badFields("/v1/node/heartbeat", object{"node_id": "n1"}, rows...)
}

func badDispatches() []badRequest {
	var all []badRequest
	for _, path := range []string{"/v1/dispatch/f2f", "/v1/dispatch/explain"} {
		rows := []badRequest{
			{body: object{"session_id": nil}, field: "session_id", detail: "is missing"},
			{body: object{"session_id": 5}, field: "session_id"},
			{body: object{"src_lang": nil}, field: "src_lang"},
			{body: object{"tgt_lang": nil}, field: "tgt_lang"},
			{body: object{"src_lang": "no such language!"}, field: "src_lang", detail: "BCP-47"},
			{body: object{"src_lang": "auto"}, field: "src_lang"},
			{body: object{"src_lang": "und"}, field: "src_lang"},
			{body: object{"tgt_lang": "mul"}, field: "tgt_lang"},
			{body: object{"tgt_lang": strings.Repeat("en-", 50)}, field: "tgt_lang"},
			{body: object{"src_lang": []string{"en"}}, field: "src_lang", detail: "must be a string"},
			{body: object{"src_lang": "en", "tgt_lang": "en"}, field: "tgt_lang", detail: "same language"},
			{body: object{"src_lang": "zh", "tgt_lang": "cmn"}, field: "tgt_lang", detail: "same language"},
			{body: object{"src_lang": "zh-Hans", "tgt_lang": "zho"}, field: "tgt_lang", detail: "same language"},
			{body: object{"src_lang": "EN", "tgt_lang": "eng"}, field: "tgt_lang", detail: "same language"},
			{body: object{"audio_ref": strings.Repeat("a", 2049)}, field: "audio_ref", detail: "2048"},
			{body: object{"audio_ref": object{}}, field: "audio_ref"},
			{body: object{"tenant_id": "a b"}, field: "tenant_id"},
			{body: object{"options": "fast"}, field: "options", detail: "must be an object"},
			{body: object{"options": object{"speed": 2}}, field: "options", detail: "speed"},
			{body: object{"options": object{"require_tts": "yes"}}, field: "options.require_tts", detail: "true or false"},
			{body: object{"options": object{"strict": true}}, field: "options.strict", detail: "preferred_node_id"},
			{body: object{"options": object{"preferred_node_id": "a b"}}, field: "options.preferred_node_id"},
			{body: object{"options": object{"preferred_node_id": 1}}, field: "options.preferred_node_id"},
			{body: object{"options": object{"required_models": []string{""}}}, field: "options.required_models[0]"},
			{body: object{"options": object{"required_services": "s"}}, field: "options.required_services"},
			{body: object{"options": object{"features": []string{strings.Repeat("f", 257)}}}, field: "options.features[0]"},
			{body: object{"options": object{"region": strings.Repeat("r", 257)}}, field: "options.region"},
		}
		for _, id := range badIDs {
			rows = append(rows, badRequest{name: fmt.Sprintf("request_id %q", id), body: object{"request_id": id}, field: "request_id"},
				badRequest{name: fmt.Sprintf("session_id %q", id), body: object{"session_id": id}, field: "session_id"})
		}
		all = append(all, badFields(path, dispatchBody(nil), rows...)...)
	}
	return append(all, badFields("/v1/dispatch/f2f", dispatchBody(nil),
		badRequest{body: object{"request_id": "req-n1"}, code: wire.RequestMismatch, field: "request_id", detail: "new one"},
		badRequest{body: object{"request_id": "req-n2"}, code: wire.RequestMismatch, field: "request_id", detail: "new one"},
		badRequest{body: object{"options": object{"preferred_node_id": "unknown"}}, code: wire.PreferredNodeNotCapable, field: "options.preferred_node_id"},
		badRequest{body: object{"src_lang": "de"}, code: wire.NoCapableNode, field: "", detail: "semantic(de)"},
	)...)
}

func badReports(f *fixture) []badRequest {
	var all []badRequest
	for _, path := range []string{"/v1/job/ack", "/v1/job/done", "/v1/job/fail"} {
		rows := []badRequest{
			{body: object{"job_id": nil}, field: "job_id", detail: "is missing"},
			{body: object{"node_id": nil}, field: "node_id", detail: "is missing"},
			{body: object{"attempt_id": nil}, field: "attempt_id"},
			{body: object{"attempt_id": 0}, field: "attempt_id", detail: "1 or more"},
			{body: object{"attempt_id": -1}, field: "attempt_id", detail: "1 or more"},
			{body: object{"attempt_id": int64(1) << 40}, field: "attempt_id"},
			{body: object{"attempt_id": 1e30}, field: "attempt_id", detail: "whole number"},
			{body: object{"attempt_id": 1.5}, field: "attempt_id", detail: "whole number"},
			{body: object{"attempt_id": "1"}, field: "attempt_id", detail: "whole number"},
			{body: object{"attempt_id": 2}, code: wire.StaleAttempt, field: "attempt_id"},
			{body: object{"attempt_id": 1 << 30}, code: wire.StaleAttempt, field: "attempt_id"},
			{body: object{"epoch": 0}, field: "epoch"},
			{body: object{"epoch": -1}, field: "epoch"},
			{body: object{"epoch": 1.5}, field: "epoch"},
			{body: object{"epoch": f.n1.epoch - 1}, code: wire.StaleEpoch, field: "epoch"},
			{body: object{"epoch": f.n2.epoch}, code: wire.StaleEpoch, field: "epoch"},
			{body: object{"node_id": "n2"}, code: wire.NotHolder, field: "node_id"},
			{body: object{"node_id": "unknown"}, code: wire.NotHolder, field: "node_id"},
			{body: object{"job_id": "job-unknown"}, code: wire.NotFound, field: "job_id"},
			{name: "job_id of another node's job", body: object{"job_id": f.endedJob.JobID}, code: wire.NotHolder, field: "node_id"},
		}
		for _, id := range badIDs {
			rows = append(rows, badRequest{name: fmt.Sprintf("job_id %q", id), body: object{"job_id": id}, field: "job_id"},
				badRequest{name: fmt.Sprintf("node_id %q", id), body: object{"node_id": id}, field: "node_id"})
		}
		all = append(all, badFields(path, f.n1.reportBody(f.heldJob), rows...)...)
	}
	return append(all, badFields("/v1/job/done", f.n1.reportBody(f.heldJob),
		badRequest{body: object{"result": "text"}, field: "result", detail: "must be an object"},
		badRequest{body: object{"result": []int{1}}, field: "result", detail: "must be an object"},
		badRequest{name: "a large result", code: wire.PayloadTooLarge, body: object{"result": object{"text": strings.Repeat("x", 256<<10)}}, field: "result", detail: "262144"},
		badRequest{body: object{"status": 5}, field: "status"},
		badRequest{body: object{"reason": []string{"x"}, "status": "error"}, field: "reason"},
	)...)
}

func badModelReports(f *fixture) []badRequest {
	return badFields("/v1/node/model_not_available", object{"node_id": "n1", "service_id": "s"},
		badRequest{body: object{"node_id": nil}, field: "node_id", detail: "is missing"},
		badRequest{body: object{"node_id": "a b"}, field: "node_id"},
		badRequest{body: object{"node_id": "unknown"}, code: wire.NotFound, field: "node_id"},
		badRequest{body: object{"service_id": nil}, field: "service_id"},
		badRequest{body: object{"service_id": strings.Repeat("s", 257)}, field: "service_id"},
		badRequest{body: object{"service_id": 1}, field: "service_id"},
		badRequest{body: object{"version": strings.Repeat("1", 257)}, field: "version"},
		badRequest{body: object{"version": 1}, field: "version"},
		badRequest{body: object{"job_id": "a b", "attempt_id": 1}, field: "job_id"},
		badRequest{body: object{"job_id": f.heldJob.JobID}, field: "attempt_id"},
		badRequest{body: object{"job_id": f.heldJob.JobID, "attempt_id": -1}, field: "attempt_id"},
		badRequest{body: object{"job_id": f.heldJob.JobID, "attempt_id": 7}, code: wire.StaleAttempt, field: "attempt_id"},
		badRequest{body: object{"job_id": f.heldJob.JobID, "attempt_id": 1, "node_id": "n2"}, code: wire.NotHolder, field: "node_id"},
		badRequest{body: object{"job_id": "job-unknown", "attempt_id": 1}, code: wire.NotFound, field: "job_id"},
	)
}

func badPaths() []badRequest {
	rows := []badRequest{
		{method: "GET", path: "/v1/jobs?node=zzz", code: wire.InvalidRequest, detail: "node_id"},
		{method: "GET", path: "/", code: wire.NotFound, detail: "/openapi.yaml"},
		{method: "GET", path: "/v1", code: wire.NotFound},
		{method: "GET", path: "/v1/nodes/", code: wire.NotFound},
		{method: "GET", path: "/v1/nodes/n1/", code: wire.NotFound},
		{method: "POST", path: "/v1/nodes/n1/explode", code: wire.NotFound},
		{method: "POST", path: "/v1/dispatch", body: dispatchBody(nil), code: wire.NotFound},
		{method: "GET", path: "/V1/NODES", code: wire.NotFound},
		{method: "GET", path: "/v1/nodes/unknown", code: wire.NotFound, detail: "unknown"},
		{method: "GET", path: "/v1/jobs/job-unknown", code: wire.NotFound, detail: "job-unknown"},
		{method: "POST", path: "/v1/nodes/unknown/drain", code: wire.NotFound, detail: "unknown"},
		{method: "POST", path: "/v1/nodes/unknown/resume", code: wire.NotFound, detail: "unknown"},
		{method: "POST", path: "/v1/jobs/job-unknown/cancel", code: wire.NotFound, detail: "job-unknown"},
	}
	for i := range rows {
		rows[i].field = anyField
	}
	for _, id := range []string{"a%20b", "a%2Fb", "%00", "na%C3%AFve", long} {
		for _, route := range []string{"GET /v1/nodes/{id}", "POST /v1/nodes/{id}/drain", "POST /v1/nodes/{id}/resume", "GET /v1/jobs/{id}", "POST /v1/jobs/{id}/cancel"} {
			method, path, _ := strings.Cut(route, " ")
			rows = append(rows, badRequest{method: method, path: strings.Replace(path, "{id}", id, 1), code: wire.InvalidRequest, field: "id"})
		}
	}
	for i := range rows {
		rows[i].name = rows[i].method + " " + rows[i].path
	}
	return rows
}

func badQueries() []badRequest {
	var rows []badRequest
	for query, field := range map[string]string{
		"state=NOPE": "state", "state=done": "state", "limit=0": "limit", "limit=-1": "limit", "limit=1001": "limit", "limit=ten": "limit",
		"limit=9999999999999999999999": "limit", "node_id=a%20b": "node_id", "session_id=" + long: "session_id",
	} {
		rows = append(rows, badRequest{name: "GET /v1/jobs?" + query, method: "GET", path: "/v1/jobs?" + query, code: wire.InvalidRequest, field: field})
	}
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=ten": "limit", "pool=unknown": "pool", "pool=a%20b": "pool", "pool=" + long: "pool", "tenant_id=a%2fb": "tenant_id",
		"tenant_id=" + long: "tenant_id", "tenant=acme": "query", "cursor=x": "cursor", "pool=%00": "pool",
	} {
		rows = append(rows, badRequest{name: "GET /v1/waiting?" + query, method: "GET", path: "/v1/waiting?" + query, code: wire.InvalidRequest, field: field})
	}
	return rows
}

// badHosts are Host headers that are not this machine's: a page can make its own DNS name resolve to a loopback address.
func badHosts(f *fixture) []badRequest {
	var rows []badRequest
	for _, host := range []string{"evil.example", "evil.example:5010", "127.0.0.1.evil.example", "192.0.2.1", "localhost.evil.example:80"} {
		rows = append(rows,
			badRequest{name: "host " + host, host: host, path: "/v1/job/done", body: f.n1.reportBody(f.heldJob), code: wire.Forbidden, field: anyField, detail: "localhost"},
			badRequest{name: "host " + host + " GET", method: "GET", host: host, path: "/v1/nodes", code: wire.Forbidden, field: anyField},
			badRequest{name: "host " + host + " nowhere", method: "GET", host: host, path: "/nowhere", code: wire.Forbidden, field: anyField},
			badRequest{name: "host " + host + " method", method: "PUT", host: host, path: "/v1/nodes", code: wire.Forbidden, field: anyField},
			badRequest{name: "host " + host + " metrics", method: "GET", host: host, path: "/metrics", code: wire.Forbidden, field: anyField},
		)
	}
	return rows
}
