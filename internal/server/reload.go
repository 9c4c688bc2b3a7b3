package server

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *operatorHandlers) configRoutes() []route {
	return []route{
		h.configRoute(),
		{
			method: "POST", path: "/v1/config/reload", rule: operators, action: "config.reload", tag: "operations",
			summary: "Read the configuration again",
			description: "This instance reads its configuration again, as on SIGHUP, and puts keys, signers and what else can change in " +
				"force. Capability pools that have changed are published to all instances. A configuration with errors changes nothing. " +
				"Each instance has to be asked itself.",
			handler: handle(h.responder, h.reload),
			params: []param{{
				name: publishPools, kind: "string",
				description: "true: publish the capability pools of the configuration to all instances also if they have not changed " +
					"since this instance loaded it.",
			}},
			codes: []wire.Code{wire.NotFound, wire.ConfigInvalid, wire.SchedulerDependencyDown},
		},
	}
}

const publishPools = "publish_pools"

// readReload parses the query of a reload.
func readReload(q url.Values) (request config.ReloadRequest, _ *wire.Error) {
	for name := range q {
		if name != publishPools {
			return request, wire.Invalid("query", "there are no other parameters than "+publishPools)
		}
	}
	switch q.Get(publishPools) {
	case "", "false":
	case "true":
		request.PublishPools = true
	default:
		return request, wire.Invalid(publishPools, "must be true or false")
	}
	return request, nil
}

// reload reloads the configuration of this instance.
func (h *operatorHandlers) reload(r *http.Request) (*wire.ReloadResponse, error) {
	request, e := readReload(r.URL.Query())
	if e != nil {
		return nil, e
	}
	result, err := h.config.Reload(request) // it logs the error
	var invalid *config.InvalidError
	var unavailable *config.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		e := store.Unavailable()
		e.Detail = "nothing was changed: " + e.Detail
		return nil, e
	case errors.As(err, &invalid):
		// All of it, whatever its length: the caller is an operator, and errors of the configuration quote no secret.
		return nil, &wire.Error{Code: wire.ConfigInvalid, Detail: "nothing was changed: " + invalid.Error()}
	case errors.Is(err, config.ErrNoSource):
		return nil, wire.Errorf(wire.NotFound, "%s", err)
	case err != nil:
		return nil, err
	}
	return &wire.ReloadResponse{
		Changed: result.Changed, NeedsRestart: result.NeedsRestart, Warnings: result.Warnings, KeysDigest: h.auth.Keyring().Digest(),
	}, nil
}
