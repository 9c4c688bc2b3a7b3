package server

import (
	"io"
	"net/http"
	"reflect"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// audioRoutes serve the audio of jobs to nodes, and receive spoken results from them, at signed URLs.
func (h *jobHandlers) audioRoutes() []route {
	params := []param{idParam("The job's id."),
		{name: "token", description: "The token of the URL that came with the job.", kind: "string"}}
	return []route{
		{
			method: "GET", path: "/v1/audio/{id}", rule: everyone, tag: "sockets", summary: "Fetch the audio of a session's job",
			description: "For nodes that are not connected to this instance; the URL, with its token, comes with the job and is valid " +
				"for one attempt. " +
				"Content-Type and X-Lingua-Audio are its format: audio/pcm, audio/wav, or audio/ogg with packets of Opus.",
			handler: handler{serve: h.serveClip}, media: "audio/*", params: params, codes: []wire.Code{wire.Unauthorized, wire.NotFound},
		},
		{
			method: "PUT", path: "/v1/audio/{id}/tts", rule: everyone, tag: "sockets",
			summary: "Upload the spoken result of a session's job",
			description: "Must precede the result itself. The URL comes with the job. X-Lingua-Audio names the format (\"pcm_s16le; " +
				"rate=24000; channels=1\"), " +
				"or Content-Type does (audio/pcm, audio/wav, audio/ogg with Opus); without either it is pcm_s16le, 16000, 1.",
			handler: handler{serve: h.receiveSpeech, out: reflect.TypeFor[wire.OKResponse]()}, params: params,
			codes: []wire.Code{wire.Unauthorized, wire.NotFound, wire.PayloadTooLarge, wire.UnsupportedMediaType},
		},
	}
}

// checkGrant checks the token of a request for a job's audio.
func (h *jobHandlers) checkGrant(r *http.Request) (audio.Grant, *wire.Error) {
	id := r.PathValue("id")
	g, ok := h.urls.Check(core.JobID(id), r.Method, r.URL.Query().Get("token"))
	if !ok || !h.dispatcher.Reports.MayUseAudio(&dispatch.Report{Job: g.Job, Holder: core.Holder{Attempt: g.Attempt, Node: g.Node}}) {
		callOf(r.Context()).reason = deniedAudioURL
		return audio.Grant{}, wire.Errorf(wire.Unauthorized, "the URL is not valid, or not any more: use the one that came with the job")
	}
	return g, nil
}

// serveClip answers with the audio of a job.
func (h *jobHandlers) serveClip(w http.ResponseWriter, r *http.Request) {
	g, e := h.checkGrant(r)
	if e != nil {
		h.writeError(w, e)
		return
	}
	clip := h.audio.Clip(g.Job)
	if clip == nil {
		h.writeError(w, wire.Errorf(wire.NotFound, "the audio of job %s is not here any more", g.Job))
		return
	}
	file, err := clip.File(g.Job)
	if err != nil {
		h.writeError(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", clip.Format.ContentType())
	header.Set("Content-Length", strconv.Itoa(len(file)))
	header.Set(wire.AudioHeader, clip.Format.Header())
	writeBody(w, file)
}

// receiveSpeech receives a spoken result.
func (h *jobHandlers) receiveSpeech(w http.ResponseWriter, r *http.Request) {
	g, e := h.checkGrant(r)
	if e != nil {
		h.writeError(w, e)
		return
	}
	allowBody(w)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, audio.MaxSpeech))
	if err != nil {
		h.writeError(w, wire.Errorf(wire.PayloadTooLarge, "a spoken result is at most %d bytes", audio.MaxSpeech))
		return
	}
	format, chunks, e := audio.ParseUpload(r.Header, body)
	if e != nil {
		h.writeError(w, e)
		return
	}
	for i, chunk := range chunks {
		header := wire.BinaryHeader{
			Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(g.Job), AttemptID: g.Attempt}, Chunk: i, Last: i == len(chunks)-1,
			Audio: &format,
		}
		if !h.sessions.DeliverSpeech(&header, chunk) {
			h.writeError(w, wire.Errorf(wire.NotFound,
				"no session waits here any more for the speech of job %s: send the result without it", g.Job))
			return
		}
	}
	writeJSON(w, http.StatusOK, &wire.OKResponse{OK: true})
}
