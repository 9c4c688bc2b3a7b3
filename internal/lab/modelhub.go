package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"
)

// Fault is how a stand-in misbehaves.
type Fault string

// The faults.
const (
	FaultNone      Fault = "none"
	FaultFail      Fault = "fail"      // it answers 503
	FaultHang      Fault = "hang"      // it does not answer
	FaultRubbish   Fault = "rubbish"   // its answer is not JSON
	FaultEmpty     Fault = "empty"     // its list is empty
	FaultOversized Fault = "oversized" // its answer does not end
	FaultRedirect  Fault = "redirect"  // it redirects to another host
)

// Faults lists every fault.
func Faults() []Fault {
	return []Fault{FaultNone, FaultFail, FaultHang, FaultRubbish, FaultEmpty, FaultOversized, FaultRedirect}
}

// ParseFault returns the fault of a name.
func ParseFault(name string) (Fault, error) {
	if f := Fault(name); slices.Contains(Faults(), f) {
		return f, nil
	}
	return "", fmt.Errorf("must be one of %v", Faults())
}

// The paths of a stand-in.
const (
	ServicesPath = "/v1/services"
	FaultPath    = "/fault" // GET shows the fault, PUT sets it; a real ModelHub has no such path
)

// ModelHub is a small ModelHub: a list of services in memory, with ETag and Last-Modified, that can be made to misbehave.
type ModelHub struct {
	token string

	mu       sync.Mutex
	services []health.HubService
	tag      string
	changed  time.Time
	fault    Fault
	released chan struct{} // closed when the fault changes
	lists    int           // requests for the list
	singles  map[string]int
}

// NewModelHub makes a stand-in. With a token, it answers only requests that carry it.
func NewModelHub(token string, services ...health.HubService) *ModelHub {
	h := &ModelHub{token: token, fault: FaultNone, released: make(chan struct{}), singles: make(map[string]int)}
	h.SetServices(services...)
	return h
}

// SetServices replaces the list.
func (h *ModelHub) SetServices(services ...health.HubService) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.services = slices.Clone(services)
	sum := sha256.Sum256(encode(health.HubList{Services: h.services}))
	h.tag, h.changed = `"`+hex.EncodeToString(sum[:8])+`"`, time.Now().UTC().Truncate(time.Second)
}

// SetFault makes the stand-in misbehave. Requests that hang are answered, with 503.
func (h *ModelHub) SetFault(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
	close(h.released)
	h.released = make(chan struct{})
}

// Requests returns how many requests there were for the list, and for one service.
func (h *ModelHub) Requests(service string) (lists, singles int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lists, h.singles[service]
}

// ServeHTTP implements http.Handler.
func (h *ModelHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == FaultPath {
		h.serveFault(w, r)
		return
	}
	id, single := strings.CutPrefix(r.URL.Path, ServicesPath+"/")
	h.mu.Lock()
	if single {
		h.singles[id]++
	} else {
		h.lists++
	}
	fault, released := h.fault, h.released
	h.mu.Unlock()
	switch {
	case fault != FaultNone:
		misbehave(w, r, fault, released)
	case h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token:
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
	case r.Method != http.MethodGet:
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	case single:
		h.serveService(w, id)
	case r.URL.Path == ServicesPath:
		h.serveList(w, r)
	default:
		http.Error(w, "there is nothing here", http.StatusNotFound)
	}
}

// serveFault shows or sets the fault.
func (h *ModelHub) serveFault(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 64))
		f, err := ParseFault(strings.TrimSpace(string(text)))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.SetFault(f)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintln(w, h.fault)
}

// serveList answers with the list, or that it has not changed.
func (h *ModelHub) serveList(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	body, tag, changed := encode(health.HubList{Services: h.services}), h.tag, h.changed
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", changed, bytes.NewReader(body))
}

func (h *ModelHub) serveService(w http.ResponseWriter, id string) {
	h.mu.Lock()
	i := slices.IndexFunc(h.services, func(s health.HubService) bool { return s.ServiceID == id })
	var body []byte
	if i >= 0 {
		body = encode(h.services[i])
	}
	h.mu.Unlock()
	if body == nil {
		http.Error(w, "there is no such service", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the caller has left
}

// misbehave answers as a fault has it.
func misbehave(w http.ResponseWriter, r *http.Request, f Fault, released <-chan struct{}) {
	switch f {
	case FaultHang:
		select {
		case <-r.Context().Done():
			return
		case <-released:
		}
	case FaultRubbish:
		_, _ = io.WriteString(w, "<html>It works!</html>\n")
		return
	case FaultEmpty:
		_, _ = w.Write(encode(health.HubList{Services: []health.HubService{}}))
		return
	case FaultOversized:
		_, _ = io.WriteString(w, `{"services": [{"service_id": "`)
		for block := bytes.Repeat([]byte("x"), 64<<10); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
		return
	case FaultRedirect:
		http.Redirect(w, r, "http://hub.invalid/elsewhere?secret=1", http.StatusFound)
		return
	}
	http.Error(w, "out of order", http.StatusServiceUnavailable)
}

// encode encodes an answer as it is documented: indented, one line for each field.
func encode(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // the types have only texts
	}
	return append(text, '\n')
}
