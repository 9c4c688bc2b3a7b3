package main

// sessions is about what people notice: their connections, and how long they wait.
var sessions = dashboard{
	name: "sessions", title: "Lingua: sessions",
	description: "What people notice: whether their connection holds, and how long they wait for a translation.",
	rows: []row{
		{"Waiting for results", []panel{
			{
				title: "From the end of an utterance to its result", unit: seconds, warn: 8, width: 8,
				description: "Normal: as long as your nodes take, and some 100 ms. One in twenty above 8 s is a ticket.",
				queries:     quantiles("lingua_utterance_duration_seconds", `$i, outcome="result"`), alerts: []string{"ResultsSlow"},
			},
			{
				title: "Lag by part, 95 %", unit: seconds, width: 8,
				description: "Where the time goes: segmentation (until the pause is certain), wait (for a free slot), dispatch (retries " +
					"included), node (its work), return. wait: add nodes. dispatch: nodes fail or Redis is slow. node: they are slow.",
				queries: quantileBy("0.95", "lingua_lag_seconds", "$i", "part"), alerts: []string{"ResultsSlow", "FleetFull"},
			},
			{
				title: "Messages to sessions", unit: perSecond, width: 8,
				description: "Normal: a result for each utterance, and nearly no error. Each error is an utterance without a translation.",
				queries:     one(`sum by (kind) (rate(lingua_session_messages_total{$i}[$r]))`, "{{kind}}"), alerts: []string{"JobsFail"},
			},
			{
				title: "Utterances by what ended them", unit: perSecond, stacked: true, width: 8,
				description: "Normal: pause or manual, as your clients do it. Many max_duration: the microphone stays open, or noise is " +
					"taken for speech.",
				queries: one(`sum by (reason) (rate(lingua_utterances_total{$i}[$r]))`, "{{reason}}"),
			},
			{
				title: "Next job on the same node", unit: share, width: 8,
				description: "Share of jobs that went to the node of the session's job before. With spread_enabled it is near 0; " +
					"without, it depends on the number of free nodes.",
				queries: one(`sum(rate(lingua_session_successions_total{$i, same_node="true"}[$r])) / sum(rate(lingua_session_successions_total{$i}[$r]))`, "same node"),
			},
			{
				title: "Requests that wait for a slot", unit: count, warn: 1, width: 8,
				description: "Utterances that found all nodes busy. Normal: 0, or a few for moments.",
				queries:     one(`sum by (instance) (lingua_waiting_requests{$i})`, "{{instance}}"), alerts: []string{"FleetFull"},
			},
		}},
		{"Sessions and connections", []panel{
			{
				title: "Sessions by instance", unit: count, stacked: true, width: 8,
				description: "Also those whose connection was lost recently. Normal: evenly distributed some time after a start.",
				queries:     one(`sum by (instance) (lingua_sessions{$i})`, "{{instance}}"),
			},
			{
				title: "Events of sessions", unit: perSecond, width: 8,
				description: "Normal: started and ended. resumed: connections were lost and came back. revived: on another instance. " +
					"abandoned: they did not come back in time. terminated: by an operator.",
				queries: one(`sum by (event) (rate(lingua_session_events_total{$i}[$r]))`, "{{event}}"),
			},
			{
				title: "Connections by instance", unit: count, stacked: true, width: 8,
				description: "WebSockets of sessions and nodes. Normal: sessions and nodes together, for a moment more.",
				queries:     one(`sum by (instance) (lingua_socket_connections{$i})`, "{{instance}}"),
			},
			{
				title: "Closed connections by code", unit: perSecond, width: 8,
				description: "Normal: 1000 and 1001. 1006 is a connection that was cut: at regular ages by a timeout in between, all at " +
					"once by a load balancer. 4504: the peer does not read or answer.",
				queries: one(`sum by (code, side) (rate(lingua_socket_closes_total{$i}[$r])) or on () vector(0)`,
					"{{code}} by {{side}}"), alerts: []string{"ConnectionsCut"},
			},
			{
				title: "Connections cut, in a minute", unit: share, warn: 0.05, width: 8,
				description: "Share of connections that were cut or do not answer. Normal: below 1 %. Above 5 % it is a ticket.",
				queries:     one(`60 * (sum(rate(lingua_socket_closes_total{$i, code=~"1006|4504"}[$r])) or vector(0)) / sum(lingua_socket_connections{$i})`, "cut"),
				alerts:      []string{"ConnectionsCut"},
			},
			{
				title: "Pings in pauses", unit: perSecond, width: 8,
				description: "Pings that distinguish a pause in the audio from a connection that stalls. Normal: about one for each " +
					"pause that ends an utterance.",
				queries: one(`sum by (instance) (rate(lingua_pause_probes_total{$i}[$r]))`, "{{instance}}"),
			},
		}},
		{"Audio", []panel{{
			title: "Audio held", unit: size, warn: 214748364, width: 24,
			description: "Audio that is kept until its jobs have ended, by instance. Normal: far below " +
				"scheduler.sessions.audio_buffer_mb (256 MB). At the limit more is refused: jobs wait too long, or there are too many " +
				"sessions for this instance.",
			queries: one(`sum by (instance) (lingua_audio_held_bytes{$i})`, "{{instance}}"), alerts: []string{"AudioBufferFull"},
		}}},
	},
}
