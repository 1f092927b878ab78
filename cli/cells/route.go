package cells

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"troupe/eventlog"
)

// routing is what a proxy has to know.
type routing struct {
	cells  []cell
	models map[string]string // name of a model to name of its cell
	other  string            // cell of everything else
	listen string
	ca     string // of all cells, empty for the system's
}

// proxies are the programs for which route writes a configuration.
var proxies = map[string]func(io.Writer, routing) error{"nginx": nginx, "haproxy": haproxy}

// newRouting joins the models of all cells. A model at two cells is an error.
func newRouting(cells []cell, models [][]string, other, listen string) (routing, error) {
	r := routing{cells: cells, models: map[string]string{}, other: other, listen: listen, ca: cells[0].CA}
	known := false
	for i, c := range cells {
		known = known || c.Name == other
		if scheme(c.URLs[0]) != scheme(cells[0].URLs[0]) || c.CA != r.ca {
			return r, fmt.Errorf("cells %s and %s differ in https or in ca: a proxy needs one way to reach all of them", cells[0].Name, c.Name)
		}
		for _, m := range models[i] {
			if at := r.models[m]; at != "" {
				return r, fmt.Errorf("model %q is at the cells %s and %s: delete it at one of them, or move it", m, at, c.Name)
			}
			r.models[m] = c.Name
		}
	}
	if !known {
		return r, fmt.Errorf("--default %s: there is no cell with this name", other)
	}
	return r, nil
}

// of returns the models of a cell as an alternative of a regular expression, "" for none.
func (r *routing) of(cell string) string {
	var names []string
	for m, at := range r.models {
		if at == cell {
			names = append(names, regexp.QuoteMeta(m))
		}
	}
	slices.Sort(names)
	return strings.Join(names, "|")
}

// head is the comment at the beginning.
const head = `# Written by troupe cells route %s. Decisions go to the cell of their model, rewards to the cell in which
# the event id was made, everything else to %s. Write it anew after a move, and after a model was made.
`

func nginx(w io.Writer, r routing) error {
	var b strings.Builder
	fmt.Fprintf(&b, head, "--proxy nginx", r.other)
	fmt.Fprintln(&b, "# It belongs into the http block.")
	for _, c := range r.cells {
		fmt.Fprintf(&b, "upstream troupe_%s {\n", c.Name)
		for _, u := range c.URLs {
			fmt.Fprintf(&b, "    server %s;\n", host(u))
		}
		fmt.Fprintln(&b, "    keepalive 64;\n}")
	}
	fmt.Fprintf(&b, "map $uri $troupe_cell {\n    default troupe_%s;\n", r.other)
	for _, c := range r.cells {
		fmt.Fprintf(&b, "    \"~^/v1/events/%c\" troupe_%s;\n", eventlog.CellMark(c.Number), c.Name)
	}
	for _, c := range r.cells {
		if names := r.of(c.Name); names != "" && c.Name != r.other {
			fmt.Fprintf(&b, "    \"~^/v1/models/(%s)([:/]|$)\" troupe_%s;\n", names, c.Name)
		}
	}
	// What an old cell answers with the address of another one goes there at once: callers need not reach a cell themselves. An
	// address that is no cell's goes back to the caller.
	fmt.Fprintln(&b, "}\nmap $upstream_http_location $troupe_moved {\n    default \"\";")
	for _, c := range r.cells {
		for _, u := range c.URLs {
			fmt.Fprintf(&b, "    \"~^%s/\" troupe_%s;\n", regexp.QuoteMeta(u), c.Name)
		}
	}
	fmt.Fprintf(&b, `}
server {
    listen %s;
    client_max_body_size 64m;
    location / {
        proxy_pass %s://$troupe_cell;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
`, r.listen, scheme(r.cells[0].URLs[0]))
	if scheme(r.cells[0].URLs[0]) == "https" {
		fmt.Fprintln(&b, "        proxy_ssl_verify on;\n        proxy_ssl_server_name on;")
		if r.ca == "" {
			return errors.New("nginx wants the file of the authority of the cells' certificates: give each cell ca")
		}
		fmt.Fprintf(&b, "        proxy_ssl_trusted_certificate %s;\n", r.ca)
	}
	fmt.Fprintf(&b, `        proxy_intercept_errors on;
        error_page 307 = @moved;
    }
    location @moved {
        if ($troupe_moved = "") {
            return 307 $upstream_http_location;
        }
        proxy_pass %s://$troupe_moved$request_uri;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
`, scheme(r.cells[0].URLs[0]))
	if r.ca != "" {
		fmt.Fprintf(&b, "        proxy_ssl_verify on;\n        proxy_ssl_server_name on;\n        proxy_ssl_trusted_certificate %s;\n", r.ca)
	}
	fmt.Fprintln(&b, "    }\n}")
	_, err := io.WriteString(w, b.String())
	return err
}

func haproxy(w io.Writer, r routing) error {
	var b strings.Builder
	fmt.Fprintf(&b, head, "--proxy haproxy", r.other)
	address := r.listen
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	fmt.Fprintf(&b, `frontend troupe
    mode http
    bind %s
    timeout client 30s
`, address)
	for _, c := range r.cells {
		fmt.Fprintf(&b, "    use_backend troupe_%s if { path_beg /v1/events/%c }\n", c.Name, eventlog.CellMark(c.Number))
	}
	for _, c := range r.cells {
		if names := r.of(c.Name); names != "" && c.Name != r.other {
			fmt.Fprintf(&b, "    use_backend troupe_%s if { path,url_dec -m reg ^/v1/models/(%s)([:/]|$) }\n", c.Name, names)
		}
	}
	fmt.Fprintf(&b, "    default_backend troupe_%s\n", r.other)
	for _, c := range r.cells {
		fmt.Fprintf(&b, "backend troupe_%s\n    mode http\n    timeout connect 5s\n    timeout server 30s\n    option httpchk GET /readyz\n", c.Name)
		for i, u := range c.URLs {
			fmt.Fprintf(&b, "    server n%d %s check", i+1, host(u))
			if scheme(u) == "https" {
				ca := r.ca
				if ca == "" {
					ca = "@system-ca"
				}
				fmt.Fprintf(&b, " ssl verify required ca-file %s", ca)
			}
			fmt.Fprintln(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// host returns host and port of a URL.
func host(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	if u.Port() == "" {
		return u.Host + map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	return u.Host
}
