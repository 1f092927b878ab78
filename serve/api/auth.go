package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"troupe/spec"
)

// Scope is one thing a key may be allowed to do.
type Scope string

// The scopes. Each route of the API asks for exactly one.
const (
	Decide Scope = "decide" // choose actions, activate deferred decisions
	Reward Scope = "reward" // report rewards
	Read   Scope = "read"   // look at models, events, state, metrics and pages
	Admin  Scope = "admin"  // create, change, pause, clone, roll back, delete; what backup may
	Backup Scope = "backup" // read the log as it is stored
)

var scopes = []Scope{Decide, Reward, Read, Admin, Backup}

// Key is one line of the list of API keys. Of the secret only the SHA-256 is kept: it has 256
// random bits, so a slow hash would protect nothing.
type Key struct {
	ID          string   `key:"id" doc:"public name of the key; it is recorded with every event"`
	Hash        string   `key:"hash" doc:"SHA-256 of the secret, 64 hexadecimal digits"`
	Certificate string   `key:"certificate" doc:"common name of a client certificate that stands for this key"`
	Scopes      []string `key:"scopes" doc:"decide, reward, read, admin, backup"`
	Models      []string `key:"models" doc:"names of models, with * and ? as in file names; none means all"`
	Rate        float64  `key:"rate" doc:"requests a second" default:"no limit"`
}

// Keys is a compiled list of API keys. It never changes and is safe for concurrent use; a reload
// makes another one.
type Keys struct {
	byID   map[string]*holder
	byCert map[string]*holder
}

// holder is the key of a request, compiled.
type holder struct {
	id      string
	hash    [sha256.Size]byte
	secret  bool // hash is set
	scopes  []Scope
	models  []string
	limiter *rate.Limiter // nil: no limit
	spec    Key
}

// anonymous is the holder of a request to a server without keys.
var anonymous = &holder{scopes: scopes}

// nobody is the holder of a request without a key, where the server has keys and the answer needs none.
var nobody = &holder{}

// ParseKeys reads a TOML file with a [[key]] table for each key; file is its name in messages.
// previous, which may be nil, gives the token buckets of keys that did not change. Faults are
// *spec.FileError.
func ParseKeys(file, text string, previous *Keys) (*Keys, error) {
	raw, src, err := spec.ReadFile(file, text)
	if err != nil {
		return nil, err
	}
	k, err := parseKeys(raw, previous)
	if err != nil {
		return nil, src.Locate(err)
	}
	return k, nil
}

func parseKeys(raw spec.Raw, previous *Keys) (*Keys, error) {
	for name := range raw {
		if name != "key" {
			return nil, spec.Errorf(name, "unknown key %q; expected tables [[key]]", name)
		}
	}
	list, ok := raw["key"].([]any)
	if !ok || len(list) == 0 {
		return nil, spec.Errorf("", "there is no table [[key]]; a list without keys would refuse every request")
	}
	k := &Keys{map[string]*holder{}, map[string]*holder{}}
	for i, v := range list {
		at := spec.Element("key", i)
		table, ok := v.(spec.Raw)
		if !ok {
			return nil, spec.Errorf(at, "is %s, expected a table", spec.Show(v))
		}
		var key Key
		if err := spec.DecodeStruct(&key, table, at); err != nil {
			return nil, err
		}
		h, err := key.holder(at)
		if err != nil {
			return nil, err
		}
		if k.byID[h.id] != nil {
			return nil, spec.Errorf(at+".id", "is %q, which is there already", h.id)
		}
		if c := key.Certificate; c != "" {
			if k.byCert[c] != nil {
				return nil, spec.Errorf(at+".certificate", "is %q, which is there already", c)
			}
			k.byCert[c] = h
		}
		if previous != nil {
			if old := previous.byID[h.id]; old != nil && old.spec.Rate == key.Rate {
				h.limiter = old.limiter
			}
		}
		k.byID[h.id] = h
	}
	return k, nil
}

func (key Key) holder(at string) (*holder, error) {
	h := &holder{id: key.ID, models: key.Models, spec: key}
	if !keyID(key.ID) {
		return nil, spec.Errorf(at+".id", "is %q, expected 1 to 40 letters, digits or -", key.ID)
	}
	if key.Hash == "" && key.Certificate == "" {
		return nil, spec.Errorf(at, "has neither hash nor certificate")
	}
	if key.Hash != "" {
		b, err := hex.DecodeString(key.Hash)
		if err != nil || len(b) != sha256.Size {
			return nil, spec.Errorf(at+".hash", "is not 64 hexadecimal digits")
		}
		h.secret = true
		copy(h.hash[:], b)
	}
	for _, s := range key.Scopes {
		if !slices.Contains(scopes, Scope(s)) {
			return nil, spec.Errorf(at+".scopes", "unknown scope %q%s", s,
				spec.Suggest(s, []string{"decide", "reward", "read", "admin"}))
		}
		h.scopes = append(h.scopes, Scope(s))
	}
	if len(h.scopes) == 0 {
		return nil, spec.Errorf(at+".scopes", "is empty, expected some of decide, reward, read, admin, backup")
	}
	for i, m := range key.Models {
		if _, err := path.Match(m, ""); err != nil || m == "" {
			return nil, spec.Errorf(spec.Element(at+".models", i), "is %q, expected a name with * and ?", m)
		}
	}
	switch {
	case key.Rate < 0:
		return nil, spec.Errorf(at+".rate", "is %v, expected a positive number", key.Rate)
	case key.Rate > 0:
		h.limiter = rate.NewLimiter(rate.Limit(key.Rate), max(1, int(key.Rate)))
	}
	return h, nil
}

func keyID(s string) bool {
	return s != "" && len(s) <= 40 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	})
}

// NewKey makes a secret and the table for the list of keys. The secret is shown once and kept
// nowhere.
func NewKey(id string, scopes, models []string) (secret, table string, err error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", "", err
	}
	text := hex.EncodeToString(random)
	hash := sha256.Sum256([]byte(text))
	key := Key{ID: id, Hash: hex.EncodeToString(hash[:]), Scopes: scopes, Models: models}
	if _, err := key.holder("key"); err != nil {
		return "", "", err
	}
	quoted := func(list []string) string {
		var out []string
		for _, s := range list {
			out = append(out, fmt.Sprintf("%q", s))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	table = fmt.Sprintf("[[key]]\nid = %q\nhash = %q\nscopes = %s\n", id, key.Hash, quoted(scopes))
	if len(models) > 0 {
		table += fmt.Sprintf("models = %s\n", quoted(models))
	}
	return "troupe_" + id + "_" + text, table, nil
}

// identify returns the holder of a request: of a verified client certificate or of a key in
// Authorization (Bearer, or the password of Basic), X-API-Key or Personalizer's
// Ocp-Apim-Subscription-Key. It returns nil when there is none that is known. The comparison takes the same time
// wherever the difference is, and an unknown id takes as long as a known one.
func (k *Keys) identify(r *http.Request) *holder {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if h := k.byCert[r.TLS.VerifiedChains[0][0].Subject.CommonName]; h != nil {
			return h
		}
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	text = strings.TrimLeft(text, " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110, 11.1: the case of a scheme does not matter
		text = r.Header.Get("X-API-Key")
	}
	if text == "" {
		text = r.Header.Get("Ocp-Apim-Subscription-Key")
	}
	if _, password, ok := r.BasicAuth(); ok { // a browser, at the status page
		text = password
	}
	rest, ours := strings.CutPrefix(text, "troupe_")
	id, secret, whole := strings.Cut(rest, "_")
	sum := sha256.Sum256([]byte(secret))
	h := k.byID[id]
	known := h != nil && h.secret
	if !known {
		h = anonymous
	}
	if same := subtle.ConstantTimeCompare(sum[:], h.hash[:]) == 1; !same || !known || !ours || !whole {
		return nil
	}
	return h
}

// may reports whether the holder has the scope.
func (h *holder) may(s Scope) bool {
	return slices.Contains(h.scopes, s) || s == Backup && slices.Contains(h.scopes, Admin)
}

// sees reports whether the holder's patterns include the model.
func (h *holder) sees(model string) bool {
	if len(h.models) == 0 {
		return true
	}
	return slices.ContainsFunc(h.models, func(pattern string) bool {
		ok, _ := path.Match(pattern, model)
		return ok
	})
}
