package server_test

import (
	"fmt"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

// invalid makes rows of one path out of single changes to a body that is good without them.
func invalid(path string, good obj, rows ...bad) []bad {
	for i := range rows {
		b := &rows[i]
		change := b.body.(obj)
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

// null stands for JSON's null where obj.with would take nil for "leave it out".
var null = (*int)(nil)

// badForm sends what is not even a message, to every path that takes one.
func badForm(s *stage) []bad {
	var rows []bad
	bodies := map[string]obj{
		"/v1/node/register": capable(nil), "/v1/node/heartbeat": {"node_id": "n1"}, "/v1/node/model_not_available": {"node_id": "n1", "service_id": "s"},
		"/v1/dispatch/f2f": utterance(nil), "/v1/dispatch/explain": utterance(nil),
		"/v1/job/ack": s.n1.about(s.held), "/v1/job/done": s.n1.about(s.held), "/v1/job/fail": s.n1.about(s.held),
	}
	for path, good := range bodies {
		text := string(encode(s.t, good))
		for _, contentType := range []string{"none", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonp", "json", ";"} {
			rows = append(rows, bad{
				name: path + " content type " + contentType, path: path, contentType: contentType, body: text,
				code: wire.UnsupportedMediaType, field: anyField, says: "application/json",
			})
		}
		rows = append(rows, bad{
			name: path + " too large", path: path, body: text + strings.Repeat(" ", wire.MaxBody), code: wire.PayloadTooLarge, field: anyField, says: "1048576",
		})
		for name, body := range map[string]string{
			"empty": "", "blank": " \n\t", "not JSON": "hello", "cut off": text[:len(text)-1], "two": text + text, "rubbish after": text + "x",
			"an array": "[" + text + "]", "a string": `"hello"`, "a number": "1", "true": "true", "NaN": strings.TrimSuffix(text, "}") + `,"current_load":{"cpu":NaN}}`,
			"too deep":             strings.TrimSuffix(text, "}") + `,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}",
			"far too deep":         strings.Repeat(`{"x":`, 100_000) + "1" + strings.Repeat("}", 100_000),
			"deep and never ended": strings.Repeat("[", 500_000),
			"single quotes":        strings.ReplaceAll(text, `"`, `'`), "a comment": "/* */" + text, "null bytes": "\x00\x00",
		} {
			rows = append(rows, bad{name: path + " " + name, path: path, contentType: "application/json", body: body, code: wire.InvalidRequest, field: anyField})
		}
	}
	return rows
}

// badDeclarations are what a node says wrongly of itself, at registration and in heartbeats alike.
func badDeclarations() []bad {
	many := make([]string, 4097)
	for i := range many {
		many[i] = "x"
	}
	return []bad{
		{body: obj{"health": "fine"}, field: "health", says: "ready, degraded, draining or offline"},
		{body: obj{"health": "READY"}, field: "health"},
		{body: obj{"health": 5}, field: "health", says: "must be a string"},
		{body: obj{"health": obj{}}, field: "health", says: "must be a string"},
		{body: obj{"semantic_langs": []string{}}, field: "semantic_langs", says: "must not be empty"},
		{body: obj{"semantic_langs": "en"}, field: "semantic_langs", says: "must be an array"},
		{body: obj{"semantic_langs": []any{1}}, field: "semantic_langs", says: "must be a string"},
		{body: obj{"semantic_langs": []string{"en", "not a language"}}, field: "semantic_langs[1]", says: "BCP-47"},
		{body: obj{"semantic_langs": []string{""}}, field: "semantic_langs[0]", says: "BCP-47"},
		{body: obj{"semantic_langs": []string{"und"}}, field: "semantic_langs[0]"},
		{body: obj{"asr_langs": []string{"en_"}}, field: "asr_langs[0]"},
		{body: obj{"tts_langs": []string{"mul"}}, field: "tts_langs[0]"},
		{body: obj{"tts_langs": []string{long}}, field: "tts_langs[0]"},
		{body: obj{"nmt_pairs": [][]string{{"en"}}}, field: "nmt_pairs[0]", says: "[source, target], not 1"},
		{body: obj{"nmt_pairs": [][]string{{"en", "zh"}, {"en", "zh", "de"}}}, field: "nmt_pairs[1]", says: "[source, target], not 3"},
		{body: obj{"nmt_pairs": [][]string{{}}}, field: "nmt_pairs[0]"},
		{body: obj{"nmt_pairs": [][]string{{"en", "en"}}}, field: "nmt_pairs[0]", says: "same language"},
		{body: obj{"nmt_pairs": [][]string{{"zh", "cmn"}}}, field: "nmt_pairs[0]", says: "same language"},
		{body: obj{"nmt_pairs": [][]string{{"en", "?"}}}, field: "nmt_pairs[0][1]"},
		{body: obj{"nmt_pairs": [][]string{{"?", "en"}}}, field: "nmt_pairs[0][0]"},
		{body: obj{"nmt_pairs": []string{"en-zh"}}, field: "nmt_pairs", says: "must be an array"},
		{body: obj{"nmt_pairs": "any"}, field: "nmt_pairs", says: "must be an array"},
		{body: obj{"max_concurrent_jobs": -1}, field: "max_concurrent_jobs", says: "between 0 and 10000"},
		{body: obj{"max_concurrent_jobs": 10_001}, field: "max_concurrent_jobs", says: "between 0 and 10000"},
		{body: obj{"max_concurrent_jobs": int64(1) << 62}, field: "max_concurrent_jobs"},
		{body: obj{"max_concurrent_jobs": 1e30}, field: "max_concurrent_jobs", says: "whole number"},
		{body: obj{"max_concurrent_jobs": 1.5}, field: "max_concurrent_jobs", says: "whole number"},
		{body: obj{"max_concurrent_jobs": "2"}, field: "max_concurrent_jobs", says: "whole number"},
		{body: obj{"current_jobs": -1}, field: "current_jobs"},
		{body: obj{"current_jobs": 100_001}, field: "current_jobs"},
		{body: obj{"current_jobs": "none"}, field: "current_jobs"},
		{body: obj{"current_load": obj{"cpu": 1.01}}, field: "current_load.cpu", says: "between 0 and 1"},
		{body: obj{"current_load": obj{"gpu": -0.01}}, field: "current_load.gpu", says: "between 0 and 1"},
		{body: obj{"current_load": obj{"memory": 1e308}}, field: "current_load.memory", says: "between 0 and 1"},
		{body: obj{"current_load": obj{"cpu": "NaN"}}, field: "current_load.cpu", says: "must be a number"},
		{body: obj{"current_load": 0.5}, field: "current_load", says: "must be an object"},
		{body: obj{"capability_by_type": obj{"asr": "yes"}}, field: "capability_by_type.asr", says: "true or false"},
		{body: obj{"capability_by_type": []string{"asr"}}, field: "capability_by_type", says: "must be an object"},
		{body: obj{"installed_models": []string{"m", ""}}, field: "installed_models[1]"},
		{body: obj{"installed_models": []string{strings.Repeat("m", 257)}}, field: "installed_models[0]"},
		{name: "too many models", body: obj{"installed_models": many}, field: "installed_models", says: "4096"},
		{body: obj{"features": []string{""}}, field: "features[0]"},
		{body: obj{"features": "tone"}, field: "features"},
		{body: obj{"installed_services": []obj{{"service_id": "s", "status": "fine"}}}, field: "installed_services[0].status", says: "ready, downloading"},
		{body: obj{"installed_services": []obj{{"service_id": "s"}}}, field: "installed_services[0].status"},
		{body: obj{"installed_services": []obj{{"status": "ready"}}}, field: "installed_services[0].service_id"},
		{body: obj{"installed_services": []obj{{"service_id": "s", "status": "ready", "version": strings.Repeat("1", 257)}}}, field: "installed_services[0]", says: "version"},
		{body: obj{"installed_services": []string{"s"}}, field: "installed_services"},
		{body: obj{"region": strings.Repeat("r", 257)}, field: "region"},
		{body: obj{"zone": strings.Repeat("z", 257)}, field: "zone"},
		{body: obj{"region": 1}, field: "region", says: "must be a string"},
		{body: obj{"tenant_id": "a b"}, field: "tenant_id"},
		{body: obj{"callback_url": "http://192.0.2.1:9000/jobs"}, field: "callback_url", says: "callback.allowed_targets"},
		{body: obj{"callback_url": "http://10.0.0.1/"}, field: "callback_url", says: "callback.allowed_targets"},
		{body: obj{"callback_url": "http://0.0.0.0/"}, field: "callback_url", says: "callback.allowed_targets"},
		{body: obj{"callback_url": "http://[2001:db8::1]/"}, field: "callback_url", says: "callback.allowed_targets"},
		{body: obj{"callback_url": "http://[::ffff:192.0.2.1]/"}, field: "callback_url", says: "callback.allowed_targets"},
		{body: obj{"callback_url": "http://169.254.169.254/latest/meta-data"}, field: "callback_url", says: "callback.allowed_targets"},
		{body: obj{"callback_url": "ftp://127.0.0.1/"}, field: "callback_url", says: "http:// or https://"},
		{body: obj{"callback_url": "file:///etc/passwd"}, field: "callback_url"},
		{body: obj{"callback_url": "127.0.0.1:9000"}, field: "callback_url"},
		{body: obj{"callback_url": "/jobs"}, field: "callback_url", says: "absolute URL"},
		{body: obj{"callback_url": "http://"}, field: "callback_url"},
		{body: obj{"callback_url": "http://user:password@127.0.0.1/"}, field: "callback_url", says: "user name or password"},
		{body: obj{"callback_url": "http://127.0.0.1/#top"}, field: "callback_url", says: "fragment"},
		{body: obj{"callback_url": "http://127.0.0.1/" + strings.Repeat("x", 2048)}, field: "callback_url", says: "2048"},
		{body: obj{"callback_url": 9000}, field: "callback_url"},
		{body: obj{"active": []obj{{"attempt_id": 1}}}, field: "active[0].job_id"},
		{body: obj{"active": []obj{{"job_id": "j", "attempt_id": 0}}}, field: "active[0].attempt_id"},
		{body: obj{"active": []obj{{"job_id": "j", "attempt_id": 1}, {"job_id": "a b", "attempt_id": 1}}}, field: "active[1].job_id"},
		{body: obj{"active": []string{"j"}}, field: "active"},
		{body: obj{"active": "all"}, field: "active", says: "must be an array"},
	}
}

func badRegistrations() []bad {
	rows := append(badDeclarations(),
		bad{body: obj{"semantic_langs": nil}, field: "semantic_langs", says: "is missing"},
		bad{body: obj{"max_concurrent_jobs": nil}, field: "max_concurrent_jobs", says: "is missing"},
		bad{body: obj{"semantic_langs": null}, field: "semantic_langs", says: "is missing"},
		bad{body: obj{"node_id": 5}, field: "node_id", says: "must be a string"},
	)
	for _, id := range badIDs {
		rows = append(rows, bad{name: fmt.Sprintf("node_id %q", id), body: obj{"node_id": id}, field: "node_id"})
	}
	return invalid("/v1/node/register", capable(obj{"node_id": "n1"}), rows...)
}

func badHeartbeats(s *stage) []bad {
	rows := append(badDeclarations(),
		bad{body: obj{"node_id": nil}, field: "node_id", says: "is missing"},
		bad{body: obj{"node_id": "nobody"}, code: wire.NotFound, field: "node_id", says: "register again"},
		bad{body: obj{"epoch": s.n1.epoch - 1}, code: wire.StaleEpoch, field: "epoch"},
		bad{body: obj{"epoch": s.n1.epoch + 1}, code: wire.StaleEpoch, field: "epoch"},
		bad{body: obj{"epoch": s.n2.epoch}, code: wire.StaleEpoch, field: "epoch"},
		bad{body: obj{"epoch": 1, "health": "offline", "max_concurrent_jobs": 9}, code: wire.StaleEpoch, field: "epoch"},
		bad{body: obj{"epoch": 0}, field: "epoch"},
		bad{body: obj{"epoch": -1}, field: "epoch"},
		bad{body: obj{"epoch": "1"}, field: "epoch", says: "whole number"},
		bad{body: obj{"hb_seq": 0}, field: "hb_seq"},
		bad{body: obj{"hb_seq": -1}, field: "hb_seq", says: "whole number of 0 or more"},
	)
	for _, id := range badIDs {
		rows = append(rows, bad{name: fmt.Sprintf("node_id %q", id), body: obj{"node_id": id}, field: "node_id"})
	}
	return invalid("/v1/node/heartbeat", obj{"node_id": "n1"}, rows...)
}

func badDispatches() []bad {
	var all []bad
	for _, path := range []string{"/v1/dispatch/f2f", "/v1/dispatch/explain"} {
		rows := []bad{
			{body: obj{"session_id": nil}, field: "session_id", says: "is missing"},
			{body: obj{"session_id": 5}, field: "session_id"},
			{body: obj{"src_lang": nil}, field: "src_lang"},
			{body: obj{"tgt_lang": nil}, field: "tgt_lang"},
			{body: obj{"src_lang": "no such language!"}, field: "src_lang", says: "BCP-47"},
			{body: obj{"src_lang": "auto"}, field: "src_lang"},
			{body: obj{"src_lang": "und"}, field: "src_lang"},
			{body: obj{"tgt_lang": "mul"}, field: "tgt_lang"},
			{body: obj{"tgt_lang": strings.Repeat("en-", 50)}, field: "tgt_lang"},
			{body: obj{"src_lang": []string{"en"}}, field: "src_lang", says: "must be a string"},
			{body: obj{"src_lang": "en", "tgt_lang": "en"}, field: "tgt_lang", says: "same language"},
			{body: obj{"src_lang": "zh", "tgt_lang": "cmn"}, field: "tgt_lang", says: "same language"},
			{body: obj{"src_lang": "zh-Hans", "tgt_lang": "zho"}, field: "tgt_lang", says: "same language"},
			{body: obj{"src_lang": "EN", "tgt_lang": "eng"}, field: "tgt_lang", says: "same language"},
			{body: obj{"audio_ref": strings.Repeat("a", 2049)}, field: "audio_ref", says: "2048"},
			{body: obj{"audio_ref": obj{}}, field: "audio_ref"},
			{body: obj{"tenant_id": "a b"}, field: "tenant_id"},
			{body: obj{"options": "fast"}, field: "options", says: "must be an object"},
			{body: obj{"options": obj{"require_tts": "yes"}}, field: "options.require_tts", says: "true or false"},
			{body: obj{"options": obj{"strict": true}}, field: "options.strict", says: "preferred_node_id"},
			{body: obj{"options": obj{"preferred_node_id": "a b"}}, field: "options.preferred_node_id"},
			{body: obj{"options": obj{"preferred_node_id": 1}}, field: "options.preferred_node_id"},
			{body: obj{"options": obj{"required_models": []string{""}}}, field: "options.required_models[0]"},
			{body: obj{"options": obj{"required_services": "s"}}, field: "options.required_services"},
			{body: obj{"options": obj{"features": []string{strings.Repeat("f", 257)}}}, field: "options.features[0]"},
			{body: obj{"options": obj{"region": strings.Repeat("r", 257)}}, field: "options.region"},
		}
		for _, id := range badIDs {
			rows = append(rows, bad{name: fmt.Sprintf("request_id %q", id), body: obj{"request_id": id}, field: "request_id"},
				bad{name: fmt.Sprintf("session_id %q", id), body: obj{"session_id": id}, field: "session_id"})
		}
		all = append(all, invalid(path, utterance(nil), rows...)...)
	}
	return append(all, invalid("/v1/dispatch/f2f", utterance(nil),
		bad{body: obj{"request_id": "req-n1"}, code: wire.RequestMismatch, field: "request_id", says: "new one"},
		bad{body: obj{"request_id": "req-n2"}, code: wire.RequestMismatch, field: "request_id", says: "new one"},
		bad{body: obj{"options": obj{"preferred_node_id": "nobody"}}, code: wire.PreferredNodeNotCapable, field: "options.preferred_node_id"},
		bad{body: obj{"src_lang": "de"}, code: wire.NoCapableNode, field: "", says: "semantic(de)"},
	)...)
}

func badReports(s *stage) []bad {
	var all []bad
	for _, path := range []string{"/v1/job/ack", "/v1/job/done", "/v1/job/fail"} {
		rows := []bad{
			{body: obj{"job_id": nil}, field: "job_id", says: "is missing"},
			{body: obj{"node_id": nil}, field: "node_id", says: "is missing"},
			{body: obj{"attempt_id": nil}, field: "attempt_id"},
			{body: obj{"attempt_id": 0}, field: "attempt_id", says: "1 or more"},
			{body: obj{"attempt_id": -1}, field: "attempt_id", says: "1 or more"},
			{body: obj{"attempt_id": int64(1) << 40}, field: "attempt_id"},
			{body: obj{"attempt_id": 1e30}, field: "attempt_id", says: "whole number"},
			{body: obj{"attempt_id": 1.5}, field: "attempt_id", says: "whole number"},
			{body: obj{"attempt_id": "1"}, field: "attempt_id", says: "whole number"},
			{body: obj{"attempt_id": 2}, code: wire.StaleAttempt, field: "attempt_id"},
			{body: obj{"attempt_id": 1 << 30}, code: wire.StaleAttempt, field: "attempt_id"},
			{body: obj{"epoch": 0}, field: "epoch"},
			{body: obj{"epoch": -1}, field: "epoch"},
			{body: obj{"epoch": 1.5}, field: "epoch"},
			{body: obj{"epoch": s.n1.epoch - 1}, code: wire.StaleEpoch, field: "epoch"},
			{body: obj{"epoch": s.n2.epoch}, code: wire.StaleEpoch, field: "epoch"},
			{body: obj{"node_id": "n2"}, code: wire.NotHolder, field: "node_id"},
			{body: obj{"node_id": "nobody"}, code: wire.NotHolder, field: "node_id"},
			{body: obj{"job_id": "job-nobody-knows"}, code: wire.NotFound, field: "job_id"},
			{name: "job_id is somebody else's", body: obj{"job_id": s.ended.JobID}, code: wire.NotHolder, field: "node_id"},
		}
		for _, id := range badIDs {
			rows = append(rows, bad{name: fmt.Sprintf("job_id %q", id), body: obj{"job_id": id}, field: "job_id"},
				bad{name: fmt.Sprintf("node_id %q", id), body: obj{"node_id": id}, field: "node_id"})
		}
		all = append(all, invalid(path, s.n1.about(s.held), rows...)...)
	}
	return append(all, invalid("/v1/job/done", s.n1.about(s.held),
		bad{body: obj{"result": "text"}, field: "result", says: "must be an object"},
		bad{body: obj{"result": []int{1}}, field: "result", says: "must be an object"},
		bad{name: "a large result", code: wire.PayloadTooLarge, body: obj{"result": obj{"text": strings.Repeat("x", 256<<10)}}, field: "result", says: "262144"},
		bad{body: obj{"status": 5}, field: "status"},
		bad{body: obj{"reason": []string{"x"}, "status": "error"}, field: "reason"},
	)...)
}

func badModelReports(s *stage) []bad {
	return invalid("/v1/node/model_not_available", obj{"node_id": "n1", "service_id": "s"},
		bad{body: obj{"node_id": nil}, field: "node_id", says: "is missing"},
		bad{body: obj{"node_id": "a b"}, field: "node_id"},
		bad{body: obj{"node_id": "nobody"}, code: wire.NotFound, field: "node_id"},
		bad{body: obj{"service_id": nil}, field: "service_id"},
		bad{body: obj{"service_id": strings.Repeat("s", 257)}, field: "service_id"},
		bad{body: obj{"service_id": 1}, field: "service_id"},
		bad{body: obj{"job_id": "a b", "attempt_id": 1}, field: "job_id"},
		bad{body: obj{"job_id": s.held.JobID}, field: "attempt_id"},
		bad{body: obj{"job_id": s.held.JobID, "attempt_id": -1}, field: "attempt_id"},
		bad{body: obj{"job_id": s.held.JobID, "attempt_id": 7}, code: wire.StaleAttempt, field: "attempt_id"},
		bad{body: obj{"job_id": s.held.JobID, "attempt_id": 1, "node_id": "n2"}, code: wire.NotHolder, field: "node_id"},
		bad{body: obj{"job_id": "job-nobody-knows", "attempt_id": 1}, code: wire.NotFound, field: "job_id"},
	)
}

func badPaths() []bad {
	rows := []bad{
		{method: "GET", path: "/v1/jobs?node=zzz", code: wire.InvalidRequest, says: "node_id"},
		{method: "GET", path: "/", code: wire.NotFound, says: "/openapi.yaml"},
		{method: "GET", path: "/v1", code: wire.NotFound},
		{method: "GET", path: "/v1/nodes/", code: wire.NotFound},
		{method: "GET", path: "/v1/nodes/n1/", code: wire.NotFound},
		{method: "POST", path: "/v1/nodes/n1/explode", code: wire.NotFound},
		{method: "POST", path: "/v1/dispatch", body: utterance(nil), code: wire.NotFound},
		{method: "GET", path: "/V1/NODES", code: wire.NotFound},
		{method: "GET", path: "/v1/nodes/nobody", code: wire.NotFound, says: "nobody"},
		{method: "GET", path: "/v1/jobs/job-nobody-knows", code: wire.NotFound, says: "job-nobody-knows"},
		{method: "POST", path: "/v1/nodes/nobody/drain", code: wire.NotFound, says: "nobody"},
		{method: "POST", path: "/v1/nodes/nobody/resume", code: wire.NotFound, says: "nobody"},
		{method: "POST", path: "/v1/jobs/job-nobody-knows/cancel", code: wire.NotFound, says: "job-nobody-knows"},
	}
	for i := range rows {
		rows[i].field = anyField
	}
	for _, id := range []string{"a%20b", "a%2Fb", "%00", "na%C3%AFve", long} {
		for _, door := range []string{"GET /v1/nodes/{id}", "POST /v1/nodes/{id}/drain", "POST /v1/nodes/{id}/resume", "GET /v1/jobs/{id}", "POST /v1/jobs/{id}/cancel"} {
			method, path, _ := strings.Cut(door, " ")
			rows = append(rows, bad{method: method, path: strings.Replace(path, "{id}", id, 1), code: wire.InvalidRequest, field: "id"})
		}
	}
	for i := range rows {
		rows[i].name = rows[i].method + " " + rows[i].path
	}
	return rows
}

func badQueries() []bad {
	var rows []bad
	for query, field := range map[string]string{
		"state=NOPE": "state", "state=done": "state", "limit=0": "limit", "limit=-1": "limit", "limit=1001": "limit", "limit=ten": "limit",
		"limit=9999999999999999999999": "limit", "node_id=a%20b": "node_id", "session_id=" + long: "session_id",
	} {
		rows = append(rows, bad{name: "GET /v1/jobs?" + query, method: "GET", path: "/v1/jobs?" + query, code: wire.InvalidRequest, field: field})
	}
	return rows
}

// badHosts are names that are not this machine's: a page in a browser can make its own name lead here.
func badHosts(s *stage) []bad {
	var rows []bad
	for _, host := range []string{"evil.example", "evil.example:5010", "127.0.0.1.evil.example", "192.0.2.1", "localhost.evil.example:80"} {
		rows = append(rows,
			bad{name: "host " + host, host: host, path: "/v1/job/done", body: s.n1.about(s.held), code: wire.Forbidden, field: anyField, says: "localhost"},
			bad{name: "host " + host + " GET", method: "GET", host: host, path: "/v1/nodes", code: wire.Forbidden, field: anyField},
			bad{name: "host " + host + " nowhere", method: "GET", host: host, path: "/nowhere", code: wire.Forbidden, field: anyField},
			bad{name: "host " + host + " method", method: "PUT", host: host, path: "/v1/nodes", code: wire.Forbidden, field: anyField},
			bad{name: "host " + host + " metrics", method: "GET", host: host, path: "/metrics", code: wire.Forbidden, field: anyField},
		)
	}
	return rows
}
