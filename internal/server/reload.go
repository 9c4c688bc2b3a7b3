package server

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/reload"
	"github.com/lingua-scheduler/lingua/wire"
)

// configHandlers reload the configuration.
type configHandlers struct {
	responder
	reloader *reload.Reloader
	auth     *auth.Authenticator
}

func (h *configHandlers) routes() []route {
	return []route{
		{
			method: "POST", path: "/v1/config/reload", rule: operators, action: "config.reload", tag: "operations", summary: "Read the configuration again",
			description: "This instance reads its configuration again, as on SIGHUP, and puts keys, signers and what else can change in force. A configuration with errors changes nothing. Each instance has to be asked itself.",
			handler:     handle(h.responder, h.reload), out: reflect.TypeFor[wire.ReloadResponse](), codes: []wire.Code{wire.NotFound, wire.ConfigInvalid},
		},
	}
}

// reload reloads the configuration of this instance.
func (h *configHandlers) reload(*http.Request) (any, error) {
	result, err := h.reloader.Reload()
	var invalid *reload.InvalidError
	switch {
	case errors.As(err, &invalid):
		// All of it, whatever its length: the caller is an operator, and errors of the configuration quote no secret.
		return nil, &wire.Error{Code: wire.ConfigInvalid, Detail: "nothing was changed: " + invalid.Error()}
	case errors.Is(err, reload.ErrNoSource):
		return nil, wire.Errorf(wire.NotFound, "%s", err)
	case err != nil:
		return nil, err
	}
	return &wire.ReloadResponse{
		Changed: result.Changed, NeedsRestart: result.NeedsRestart, Warnings: result.Warnings, KeysDigest: h.auth.Keyring().Digest(),
	}, nil
}
