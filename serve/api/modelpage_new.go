package api

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"troupe/serve"
)

var (
	//go:embed page/new.html
	newText string

	newTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("new").Parse(newText)) })
)

// newPages are the form that makes a model.
type newPages struct {
	svc    serve.ModelService
	opts   *Options
	faults *faults
}

func (a *newPages) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /models", a.page)
	mux.HandleFunc("POST /models", a.createPage)
}

// page shows the form that makes a model.
func (a *newPages) page(w http.ResponseWriter, r *http.Request) {
	a.show(w, r, http.StatusOK, "", "", "")
}

func (a *newPages) show(w http.ResponseWriter, r *http.Request, status int, id, config, refused string) {
	ctx := r.Context()
	if err := allow(ctx, Read, ""); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	v := struct {
		Style, ModelStyle            template.CSS
		Version, ID, Config, Refused string
		May                          bool
	}{template.CSS(styleSheet), template.CSS(modelStyle), a.opts.Version, id, config, refused,
		requestOf(ctx).holder.may(Admin)}
	var b bytes.Buffer
	if err := newTemplate().Execute(&b, v); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	writeForm(w, status, b.Bytes())
}

// createPage makes the model of the form and sends the browser to its page.
func (a *newPages) createPage(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := allow(ctx, Admin, ""); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	if !a.faults.readForm(w, r, a.opts.MaxBody) {
		return
	}
	id, text := r.PostForm.Get("id"), r.PostForm.Get("config")
	err := a.createFrom(ctx, id, text)
	if err != nil {
		p := a.faults.failed(ctx, err)
		a.show(w, r, p.Status, id, text, inWords(p))
		return
	}
	http.Redirect(w, r, "/models/"+url.PathEscape(id), http.StatusSeeOther)
}

func (a *newPages) createFrom(ctx context.Context, id, text string) error {
	fields := map[string]json.RawMessage{}
	if strings.TrimSpace(text) != "" {
		if err := decodeJSON([]byte(text), &fields); err != nil {
			return err
		}
	}
	name, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if given, ok := fields["id"]; ok && !bytes.Equal(bytes.TrimSpace(given), name) {
		return &fieldError{Field: "id", Want: "is given twice, by the field above and in the JSON"}
	}
	fields["id"] = name
	whole, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	var c serve.ModelConfig
	if err := json.Unmarshal(whole, &c); err != nil {
		return serve.ConfigError(err)
	}
	if err := allow(ctx, Admin, id); err != nil {
		return err
	}
	_, err = a.svc.CreateModel(ctx, c, caller(ctx))
	return err
}
