package server

import (
	"io"
	"net/http"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// audioGrant checks the token of a request for a job's audio.
func (s *Server) audioGrant(r *http.Request) (audio.Grant, *wire.Error) {
	id := r.PathValue("id")
	if e := convert.CheckID("id", id); e != nil {
		return audio.Grant{}, e
	}
	g, ok := s.AudioURLs.Check(core.JobID(id), r.Method, r.URL.Query().Get("token"))
	if !ok {
		return audio.Grant{}, wire.Errorf(wire.Unauthorized, "the address is not valid, or not any more: use the one that came with the job")
	}
	return g, nil
}

// audio answers with the audio of a job.
func (s *Server) audio(w http.ResponseWriter, r *http.Request) {
	g, e := s.audioGrant(r)
	if e != nil {
		s.fail(w, e)
		return
	}
	clip := s.Audio.Clip(g.Job)
	if clip == nil {
		s.fail(w, wire.Errorf(wire.NotFound, "the audio of job %s is not here any more", g.Job))
		return
	}
	file, err := clip.File(g.Job)
	if err != nil {
		s.fail(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", clip.Format.ContentType())
	h.Set("Content-Length", strconv.Itoa(len(file)))
	h.Set("Cache-Control", "no-store")
	h.Set(wire.AudioHeader, clip.Format.Header())
	respond(w, file)
}

// speech accepts an uploaded spoken result.
func (s *Server) speech(w http.ResponseWriter, r *http.Request) {
	g, e := s.audioGrant(r)
	if e != nil {
		s.fail(w, e)
		return
	}
	awaitBody(w)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, audio.MaxSpeech))
	if err != nil {
		s.fail(w, wire.Errorf(wire.PayloadTooLarge, "a spoken result is at most %d bytes", audio.MaxSpeech))
		return
	}
	format, chunks, e := audio.ParseUpload(r.Header, body)
	if e != nil {
		s.fail(w, e)
		return
	}
	for i, chunk := range chunks {
		head := wire.BinaryHeader{
			Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: string(g.Job), AttemptID: g.Attempt}, Chunk: i, Last: i == len(chunks)-1,
			Audio: &format,
		}
		if !s.Sessions.DeliverSpeech(&head, chunk) {
			s.fail(w, wire.Errorf(wire.NotFound, "nobody waits here any more to hear job %s: send the result without its speech", g.Job))
			return
		}
	}
	write(w, http.StatusOK, &wire.OKResponse{OK: true})
}
