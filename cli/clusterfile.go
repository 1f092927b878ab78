package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/eventlog"
	"troupe/internal/secret"
	"troupe/serve"
	"troupe/spec"
)

// Files of a node's folder, made by troupe cluster init.
const (
	clusterFile = "cluster.toml"
	caFile      = "ca.pem"
	certFile    = "node.pem"
	keyFile     = "node.key"
)

// How many nodes a cluster has. Of an even number a majority is larger, and no more may be missing.
const (
	leastNodes = 3
	mostNodes  = 5
)

const (
	nodePort   = 7420 // between nodes
	callerPort = 8080
)

// clusterConfig is cluster.toml.
type clusterConfig struct {
	file    string
	Node    string // of this folder
	Cluster string
	Engine  string // what replicates the log; empty for engineStream
	Import  string // id of the log of a single machine that the cluster goes on with, empty for none
	Join    bool   // this node makes itself one of the cluster's
	Nodes   []clusterNode

	certified time.Time // until when this node's certificate is valid, from tls
}

// trust makes requests to the nodes accept certificates of the system's authorities, of the cluster's, and of those in
// file, and own, if it is not empty.
func (c *clusterConfig) trust(file, own string) error {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if c.file != "" {
		for _, name := range []string{filepath.Join(c.folder(), caFile), own} {
			if b, err := os.ReadFile(name); err == nil { // who needs them reads them and says what is wrong
				pool.AppendCertsFromPEM(b)
			}
		}
	}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--ca: %w", err)
		}
		if !pool.AppendCertsFromPEM(b) {
			return fmt.Errorf("--ca %s has no certificate", file)
		}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	for i := range c.Nodes {
		c.Nodes[i].client = &http.Client{Transport: t}
	}
	return nil
}

// do sends a request to the node.
func (n clusterNode) do(r *http.Request) (*http.Response, error) {
	if n.client == nil {
		return http.DefaultClient.Do(r)
	}
	a, err := n.client.Do(r)
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		err = fmt.Errorf("%w: give the authority's certificate with --ca FILE", unknown)
	}
	return a, err
}

type clusterNode struct {
	Name    string `key:"name" doc:"name of the node"`
	Address string `key:"address" doc:"host:port where the other nodes reach it"`
	URL     string `key:"url" doc:"where callers reach it"`

	client *http.Client
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// check refuses lists of nodes that make no cluster. at names a node in messages.
func (c *clusterConfig) check(at func(i int) string) error {
	if n := len(c.Nodes); n < leastNodes || n > mostNodes {
		return spec.Errorf(at(-1), "has %d nodes, expected %d to %d", n, leastNodes, mostNodes)
	}
	names, addresses, urls := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, n := range c.Nodes {
		switch {
		case !nodeName.MatchString(n.Name):
			return spec.Errorf(at(i), "has the name %q, expected 1 to 64 letters, digits, dots, - or _", n.Name)
		case names[n.Name]:
			return spec.Errorf(at(i), "has the name %s, which is there already", n.Name)
		case addresses[n.Address]:
			return spec.Errorf(at(i), "has the address %s, which is there already", n.Address)
		}
		if _, _, err := hostPort(n.Address); err != nil {
			return spec.Errorf(at(i), "has the address %q, expected host:port", n.Address)
		}
		if u, err := url.Parse(n.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return spec.Errorf(at(i), "has the url %q, expected http://host:port or https://host:port", n.URL)
		} else if urls[u.Host] {
			return spec.Errorf(at(i), "has the url %s, which is there already", n.URL)
		} else {
			urls[u.Host] = true
		}
		names[n.Name], addresses[n.Address] = true, true
	}
	return nil
}

func hostPort(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err == nil && (host == "" || port < 1 || port > 65535) {
		err = errors.New("no host:port")
	}
	return host, port, err
}

// parseNodes reads --nodes: NAME, NAME=HOST, NAME=HOST:PORT or NAME=HOST:PORT/CALLERPORT, separated by commas.
func parseNodes(list []string) ([]clusterNode, error) {
	var out []clusterNode
	for _, text := range list {
		n, err := parseNode(text)
		if err != nil {
			return nil, fmt.Errorf("--nodes: %w", err)
		}
		out = append(out, n)
	}
	c := clusterConfig{Nodes: out}
	if err := c.check(func(i int) string {
		if i < 0 {
			return "--nodes"
		}
		return "--nodes: " + list[i]
	}); err != nil {
		return nil, err
	}
	return out, nil
}

// parseNode reads one of them. Callers reach it by HTTP.
func parseNode(text string) (n clusterNode, err error) {
	name, where, given := strings.Cut(strings.TrimSpace(text), "=")
	if !given {
		where = name
	}
	where, callers, both := strings.Cut(where, "/")
	if !both {
		callers = strconv.Itoa(callerPort)
	}
	if p, err := strconv.Atoi(callers); err != nil || p < 1 || p > 65535 {
		return n, fmt.Errorf("%q has the port %q, expected 1 to 65535", text, callers)
	}
	if _, _, err := net.SplitHostPort(where); err != nil {
		where = net.JoinHostPort(strings.Trim(where, "[]"), strconv.Itoa(nodePort))
	}
	host, _, err := hostPort(where)
	if err != nil {
		return n, fmt.Errorf("%q, expected NAME, NAME=HOST, NAME=HOST:PORT or NAME=HOST:PORT/CALLERPORT", text)
	}
	return clusterNode{Name: name, Address: where, URL: "http://" + net.JoinHostPort(host, callers)}, nil
}

// text is the file of one node.
func (c *clusterConfig) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by troupe cluster init. Only the first line differs between the nodes.\nnode = "+
		"%q\ncluster = %q\n", c.Node, c.Cluster)
	if c.Engine != "" {
		fmt.Fprintf(&b, "engine = %q # what replicates the log\n", c.Engine)
	}
	if c.Import != "" {
		fmt.Fprintf(&b, "import = %q # the nodes wait for troupe cluster import of this log\n", c.Import)
	}
	if c.Join {
		fmt.Fprint(&b, "join = true # with an empty data directory this node makes itself one of the cluster's\n")
	}
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "\n[[nodes]]\nname = %q\naddress = %q # where the other nodes reach it\nurl = %q     # where "+
			"callers reach it\n", n.Name, n.Address, n.URL)
	}
	return b.String()
}

// readCluster reads a cluster.toml.
func readCluster(file string) (*clusterConfig, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	raw, src, err := spec.ReadFile(file, string(data))
	if err != nil {
		return nil, err
	}
	c, err := decodeCluster(raw)
	if err != nil {
		return nil, src.Locate(err)
	}
	c.file = file
	return c, nil
}

func decodeCluster(raw spec.Raw) (*clusterConfig, error) {
	c := &clusterConfig{}
	for name, v := range raw {
		text, isText := v.(string)
		switch name {
		case "node", "cluster":
			if !isText || !nodeName.MatchString(text) {
				return nil, spec.Errorf(name, "is %s, expected a name", spec.Show(v))
			}
			if name == "node" {
				c.Node = text
			} else {
				c.Cluster = text
			}
		case "engine":
			if !isText || !isEngine(text) {
				return nil, spec.Errorf(name, "is %s, expected one of %s", spec.Show(v), strings.Join(engines, ", "))
			}
			c.Engine = text
		case "import":
			var id eventlog.ID
			if !isText || id.UnmarshalText([]byte(text)) != nil || id == 0 {
				return nil, spec.Errorf(name, "is %s, expected the id of a log, 16 hexadecimal digits", spec.Show(v))
			}
			c.Import = text
		case "join":
			is, ok := v.(bool)
			if !ok {
				return nil, spec.Errorf(name, "is %s, expected true or false", spec.Show(v))
			}
			c.Join = is
		case "nodes":
			list, ok := v.([]any)
			if !ok {
				return nil, spec.Errorf(name, "is %s, expected tables [[nodes]]", spec.Show(v))
			}
			for i, v := range list {
				at := spec.Element("nodes", i)
				table, ok := v.(spec.Raw)
				if !ok {
					return nil, spec.Errorf(at, "is %s, expected a table", spec.Show(v))
				}
				var n clusterNode
				if err := spec.DecodeStruct(&n, table, at); err != nil {
					return nil, err
				}
				c.Nodes = append(c.Nodes, n)
			}
		default:
			return nil, spec.Errorf(name, "unknown key %q%s", name, spec.Suggest(name,
				[]string{"node", "cluster", "engine", "import", "join", "nodes"}))
		}
	}
	if c.Node == "" || c.Cluster == "" {
		return nil, spec.Errorf("", "node and cluster are needed")
	}
	if err := c.check(func(i int) string {
		if i < 0 {
			return "nodes"
		}
		return spec.Element("nodes", i)
	}); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.Nodes, func(n clusterNode) bool { return n.Name == c.Node }) {
		return nil, spec.Errorf("node", "is %s, which is not one of the nodes %s", c.Node,
			strings.Join(c.names(), ", "))
	}
	return c, nil
}

func (c *clusterConfig) names() (out []string) {
	for _, n := range c.Nodes {
		out = append(out, n.Name)
	}
	return out
}

func (c *clusterConfig) addresses() (out []string) {
	for _, n := range c.Nodes {
		out = append(out, n.Address)
	}
	return out
}

// self is the node of this folder.
func (c *clusterConfig) self() clusterNode { return *c.named(c.Node) }

// named returns a node, nil when there is none.
func (c *clusterConfig) named(name string) *clusterNode {
	if i := slices.IndexFunc(c.Nodes, func(n clusterNode) bool { return n.Name == name }); i >= 0 {
		return &c.Nodes[i]
	}
	return nil
}

func (c *clusterConfig) folder() string { return filepath.Dir(c.file) }

// tls returns the configuration of the connections between nodes: TLS 1.3, and both sides show a certificate of
// the cluster's authority.
func (c *clusterConfig) tls() (*tls.Config, error) {
	in := func(name string) string { return filepath.Join(c.folder(), name) }
	ca, err := os.ReadFile(in(caFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", in(caFile))
	}
	if err := secret.Check(in(keyFile)); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(in(certFile), in(keyFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in(certFile), err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in(certFile), err)
	}
	host, _, _ := hostPort(c.self().Address)
	switch now := time.Now(); {
	case leaf.Subject.CommonName != c.Node:
		return nil, fmt.Errorf("%s is the certificate of node %q, expected one of %q", in(certFile),
			leaf.Subject.CommonName, c.Node)
	case now.After(leaf.NotAfter) || now.Before(leaf.NotBefore):
		return nil, fmt.Errorf("%s is valid from %s to %s, now it is %s", in(certFile),
			leaf.NotBefore.Format(time.DateOnly), leaf.NotAfter.Format(time.DateOnly), now.Format(time.DateOnly))
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, fmt.Errorf("%s is not a certificate of the authority in %s: %w", in(certFile), in(caFile), err)
	}
	if err := leaf.VerifyHostname(host); err != nil {
		return nil, fmt.Errorf("%s does not hold for the address of node %s: %w", in(certFile), c.Node, err)
	}
	revoked, err := refuseRevoked(c.folder(), ca, leaf)
	if err != nil {
		return nil, err
	}
	c.certified = leaf.NotAfter
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, VerifyConnection: revoked}, nil
}

// How long certificates are valid. Those of nodes whose authority's key is not kept cannot be renewed.
const (
	authorityYears = 10
	nodeYears      = 1
)

// makeCluster writes the folders of all nodes, and that of the authority if its key is kept. out must be empty or not
// there. from, if not empty, is the data directory of a single machine whose log is to be imported.
func makeCluster(out string, nodes []clusterNode, engine, from string, cell int, keep bool) (*clusterConfig, error) {
	if files, err := os.ReadDir(out); err == nil && len(files) > 0 {
		return nil, fmt.Errorf("--out %s is not empty; a second init would make other certificates and keys", out)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program first
	c := &clusterConfig{Cluster: "troupe-" + hex.EncodeToString(b[:]), Nodes: nodes}
	if engine != engineStream {
		c.Engine = engine
	}
	keys, err := serve.NewKeys(cell)
	if from != "" {
		var id eventlog.ID
		if id, _, err = importSource(from); err == nil {
			c.Import = id.String()
			keys, err = os.ReadFile(filepath.Join(from, serve.KeyFile))
		}
	}
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if keep && n.Name == authorityDir {
			return nil, fmt.Errorf("a node has the name %s, which is the folder of the authority's key; give it another "+
				"one, or --no-authority-key", authorityDir)
		}
	}
	a, err := newAuthority(filepath.Join(out, authorityDir), c.Cluster, nil)
	if err != nil {
		return nil, err
	}
	years := authorityYears
	if keep {
		years = nodeYears
	}
	for _, n := range nodes {
		cert, key, err := a.certify(n, years)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(out, n.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		of := *c
		of.Node = n.Name
		for name, data := range map[string][]byte{
			clusterFile: []byte(of.text()), caFile: a.bundle, certFile: cert, serve.KeyFile: keys, keyFile: key,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				return nil, err
			}
		}
	}
	if keep {
		return c, a.write()
	}
	return c, nil
}

// signCertificate makes an authority when by is nil, otherwise the certificate of a node.
func signCertificate(name, host string, years int, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(years, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	if by == nil {
		t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
		by, byKey = t, key
	} else {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = []net.IP{ip}
		} else {
			t.DNSNames = []string{host}
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by, &key.PublicKey, byKey)
	if err != nil {
		return nil, nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}
