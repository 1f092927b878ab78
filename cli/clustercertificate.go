package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/internal/secret"
)

// Files of the authority's folder, which troupe cluster init makes beside those of the nodes. caFile is the authority's
// certificate, followed by that of the one before while it is being replaced.
const (
	authorityDir = "authority"
	caKeyFile    = "ca.key"
	issuedFile   = "issued.txt"  // serial number, node and last day of every certificate
	revokedFile  = "revoked.crl" // in the folders of the nodes, too
)

// authority is what makes certificates of nodes.
type authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	bundle []byte // caFile
	crl    []byte // revokedFile, nil for none
	issued []issue
}

type issue struct {
	serial *big.Int
	node   string
	until  time.Time
}

// readAuthority reads an authority's folder. A key that others than its owner can read is refused.
func readAuthority(dir string) (*authority, error) {
	if dir == "" {
		return nil, errors.New("--authority is missing, expected the folder that troupe cluster init made")
	}
	a := &authority{dir: dir}
	name := filepath.Join(dir, caKeyFile)
	text, err := secret.Read(name)
	if err == nil {
		a.bundle, err = os.ReadFile(filepath.Join(dir, caFile))
	}
	if err != nil {
		return nil, fmt.Errorf("--authority: %w", err)
	}
	pair, err := tls.X509KeyPair(a.bundle, text)
	if err != nil {
		return nil, fmt.Errorf("--authority: %s does not go with %s: %w", name, caFile, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("--authority: %s is not a key of troupe cluster init", name)
	}
	if a.cert, a.key = pair.Leaf, key; !a.cert.IsCA {
		return nil, fmt.Errorf("--authority: the certificate in %s is no authority's", filepath.Join(dir, caFile))
	}
	if a.crl, err = os.ReadFile(filepath.Join(dir, revokedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--authority: %w", err)
	}
	return a, a.readIssued()
}

func (a *authority) readIssued() error {
	name := filepath.Join(a.dir, issuedFile)
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--authority: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if line == "" {
			continue
		}
		f := strings.Fields(line)
		if len(f) == 3 {
			serial, ok := new(big.Int).SetString(f[0], 16)
			until, err := time.Parse(time.DateOnly, f[2])
			if ok && err == nil {
				a.issued = append(a.issued, issue{serial, f[1], until})
				continue
			}
		}
		return fmt.Errorf("--authority: %s:%d: %q, expected a serial number, a node and a day", name, i+1, line)
	}
	return nil
}

// write writes the folder, the key last: without it the folder is not an authority's.
func (a *authority) write() error {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return err
	}
	var issued strings.Builder
	for _, x := range a.issued {
		fmt.Fprintf(&issued, "%x %s %s\n", x.serial, x.node, x.until.UTC().Format(time.DateOnly))
	}
	files := []struct {
		name string
		data []byte
	}{
		{caFile, a.bundle}, {issuedFile, []byte(issued.String())}, {revokedFile, a.crl},
		{caKeyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})},
	}
	for _, f := range files {
		if f.name == revokedFile && f.data == nil {
			continue
		}
		if err := replaceFile(filepath.Join(a.dir, f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file that only its owner can read, whole or not at all.
func replaceFile(name string, data []byte) error {
	if err := os.WriteFile(name+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

// newAuthority makes an authority. before, if not nil, is the one that it takes the place of: nodes trust both, and
// what that one has revoked stays revoked.
func newAuthority(dir, cluster string, before *authority) (*authority, error) {
	cert, key, text, err := signCertificate(cluster, "", authorityYears, nil, nil)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, cert: cert, key: key, bundle: text}
	if before == nil {
		return a, nil
	}
	first, _ := pem.Decode(before.bundle)
	a.bundle, a.issued = append(a.bundle, pem.EncodeToMemory(first)...), slices.Clone(before.issued)
	if before.crl != nil {
		serials, err := revokedSerials(before.crl, []*x509.Certificate{before.cert})
		if err == nil {
			err = a.revoke(serials)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(before.dir, revokedFile), err)
		}
	}
	return a, nil
}

// certify makes the certificate and the key of a node.
func (a *authority) certify(n clusterNode, years int) (cert, key []byte, err error) {
	host, _, err := hostPort(n.Address)
	if err != nil {
		return nil, nil, err
	}
	c, k, cert, err := signCertificate(n.Name, host, years, a.cert, a.key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	a.issued = append(a.issued, issue{c.SerialNumber, n.Name, c.NotAfter})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// revoke makes the list of certificates that no node accepts.
func (a *authority) revoke(serials []*big.Int) error {
	now := time.Now()
	t := &x509.RevocationList{Number: big.NewInt(now.UnixNano()), ThisUpdate: now, NextUpdate: a.cert.NotAfter}
	for _, s := range serials {
		t.RevokedCertificateEntries = append(t.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: s, RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(rand.Reader, t, a.cert, a.key)
	if err != nil {
		return err
	}
	a.crl = pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
	return nil
}

// revokedSerials reads a list of revoked certificates, which one of the authorities must have signed.
func revokedSerials(text []byte, by []*x509.Certificate) ([]*big.Int, error) {
	b, _ := pem.Decode(text)
	if b == nil || b.Type != "X509 CRL" {
		return nil, errors.New("expected a list of revoked certificates of troupe cluster certificate revoke")
	}
	list, err := x509.ParseRevocationList(b.Bytes)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(by, func(c *x509.Certificate) bool { return list.CheckSignatureFrom(c) == nil }) {
		return nil, fmt.Errorf("no authority in %s has signed it", caFile)
	}
	var serials []*big.Int
	for _, e := range list.RevokedCertificateEntries {
		serials = append(serials, e.SerialNumber)
	}
	return serials, nil
}

// parseCertificates parses the certificates of a file.
func parseCertificates(text []byte) (list []*x509.Certificate, err error) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return list, nil
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// refuseRevoked returns a check of a connection that refuses the certificates that the folder's list names; nil when
// there is no list. own is the node's own certificate, which must not be on it.
func refuseRevoked(folder string, ca []byte, own *x509.Certificate) (func(tls.ConnectionState) error, error) {
	name := filepath.Join(folder, revokedFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var by []*x509.Certificate
	if err == nil {
		by, err = parseCertificates(ca)
	}
	var serials []*big.Int
	if err == nil {
		serials, err = revokedSerials(text, by)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	revoked := func(c *x509.Certificate) error {
		if slices.ContainsFunc(serials, func(s *big.Int) bool { return s.Cmp(c.SerialNumber) == 0 }) {
			return fmt.Errorf("the certificate %x of node %s is revoked", c.SerialNumber, c.Subject.CommonName)
		}
		return nil
	}
	if err := revoked(own); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return func(s tls.ConnectionState) error {
		for _, c := range s.PeerCertificates {
			if err := revoked(c); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func clusterCertificateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "certificate",
		Short: "Renew or revoke the certificates of the nodes, or replace their authority",
		Long: `Nodes show each other certificates of the cluster's authority, which are valid for one year. The
authority's key is in the folder that troupe cluster init made beside those of the nodes; keep it
away from them. These commands write files and talk to no node. Copy the files into the folders of
the nodes, and restart one node after the other, each with troupe cluster drain before.`,
		Example: `  troupe cluster certificate renew --authority authority --cluster a.example/cluster.toml --out new
  troupe cluster certificate revoke b.example --authority authority`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(certificateRenewCommand(), certificateRevokeCommand(), certificateReplaceCommand(),
		certificateRetireCommand())
	return c
}

const authorityHelp = "folder of the authority, which troupe cluster init made"

func certificateRenewCommand() *cobra.Command {
	var dir, file, out string
	var nodes []string
	c := &cobra.Command{
		Use:   "renew --authority DIR --cluster FILE --out DIR",
		Short: "Make new certificates and keys for all nodes, or for some",
		Long: `Writes a folder for each node with its new certificate and key, the authority's certificates, and the
list of what is revoked if there is one. The certificates before stay valid: revoke them if a
folder was lost.`,
		Example: `  troupe cluster certificate renew --authority authority --cluster a.example/cluster.toml --out new`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := readAuthority(dir)
			if err != nil {
				return term.Misuse(err)
			}
			config, err := readCluster(file)
			if err != nil {
				return term.Misuse(err)
			}
			if err := renew(cmd.OutOrStdout(), a, config, nodes, out); err != nil {
				return term.Misuse(err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "authority", "", authorityHelp)
	c.Flags().StringVar(&file, "cluster", "", "cluster.toml of any node")
	c.Flags().StringSliceVar(&nodes, "node", nil, "name of a node (may be repeated); all without it")
	c.Flags().StringVar(&out, "out", "", "directory for the folders, empty or not there")
	return c
}

// renew writes the folders of certificate renew.
func renew(w io.Writer, a *authority, config *clusterConfig, nodes []string, out string) error {
	if err := emptyOut(out); err != nil {
		return err
	}
	for _, name := range nodes {
		if !slices.Contains(config.names(), name) {
			return fmt.Errorf("--node %s: %s has %s", name, config.file, strings.Join(config.names(), ", "))
		}
	}
	type folder struct {
		node      string
		cert, key []byte
	}
	var folders []folder
	for _, n := range config.Nodes {
		if len(nodes) > 0 && !slices.Contains(nodes, n.Name) {
			continue
		}
		cert, key, err := a.certify(n, nodeYears)
		if err != nil {
			return err
		}
		folders = append(folders, folder{n.Name, cert, key})
	}
	if err := a.write(); err != nil { // first, so that no certificate is there that cannot be revoked
		return err
	}
	for _, f := range folders {
		if err := os.MkdirAll(filepath.Join(out, f.node), 0o700); err != nil {
			return err
		}
		files := map[string][]byte{certFile: f.cert, keyFile: f.key, caFile: a.bundle}
		if a.crl != nil {
			files[revokedFile] = a.crl
		}
		for name, data := range files {
			if err := replaceFile(filepath.Join(out, f.node, name), data); err != nil {
				return err
			}
		}
		until := a.issued[len(a.issued)-1].until
		fmt.Fprintf(w, "%s: valid until %s\n", filepath.Join(out, f.node), until.Format(time.DateOnly))
	}
	fmt.Fprintln(w, "copy each folder's files over those of its node, and start one node after the other again")
	return nil
}

func certificateRevokeCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "revoke NODE --authority DIR",
		Short: "Revoke all certificates that a node has got so far",
		Long: `Writes revoked.crl into the authority's folder. Copy it into the folder of every node and start one node
after the other again: a node that has it closes the door to a certificate on the list. A
node of that name needs a new certificate afterwards, see renew.`,
		Example: `  troupe cluster certificate revoke b.example --authority cluster/authority`,
		Args:    term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := readAuthority(dir)
			if err != nil {
				return term.Misuse(err)
			}
			n, err := a.revokeNode(args[0])
			if err != nil {
				return term.Misuse(err)
			}
			if err := a.write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d certificates of %s are revoked; copy the file into the "+
				"folder of every node, and start one node after the other again\n", filepath.Join(dir, revokedFile), n, args[0])
			return err
		},
	}
	c.Flags().StringVar(&dir, "authority", "", authorityHelp)
	return c
}

// revokeNode adds what a node has got to the list, and returns how many certificates of it are on the list then.
func (a *authority) revokeNode(node string) (n int, err error) {
	var serials []*big.Int
	if a.crl != nil {
		by, err := parseCertificates(a.bundle)
		if err == nil {
			serials, err = revokedSerials(a.crl, by)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", filepath.Join(a.dir, revokedFile), err)
		}
	}
	var names []string
	for _, x := range a.issued {
		if !slices.Contains(names, x.node) {
			names = append(names, x.node)
		}
		if x.node != node {
			continue
		}
		n++
		if !slices.ContainsFunc(serials, func(s *big.Int) bool { return s.Cmp(x.serial) == 0 }) {
			serials = append(serials, x.serial)
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("%s has no certificate of node %s, expected one of %s", filepath.Join(a.dir, issuedFile),
			node, strings.Join(names, ", "))
	}
	return n, a.revoke(serials)
}

func certificateReplaceCommand() *cobra.Command {
	var dir, out string
	c := &cobra.Command{
		Use:   "replace --authority DIR --out DIR",
		Short: "Make a new authority beside the one that is in force",
		Long: `Writes the folder of a new authority, whose ca.pem has its certificate and the one before. Three rounds
replace the authority while the cluster serves; in each, copy the files into the folders of
the nodes and start one node after the other again:
1. the new ca.pem: nodes trust both authorities;
2. certificates of the new one: troupe cluster certificate renew --authority NEW;
3. after troupe cluster certificate retire --authority NEW, its ca.pem: the one before is trusted no more.`,
		Example: `  troupe cluster certificate replace --authority cluster/authority --out authority-2`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := readAuthority(dir)
			if err == nil {
				err = emptyOut(out)
			}
			if err != nil {
				return term.Misuse(err)
			}
			next, err := newAuthority(out, a.cert.Subject.CommonName, a)
			if err == nil {
				err = next.write()
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: copy %s and, if it is there, %s into the folder of every node, "+
				"and start one node after the other again\n", out, caFile, revokedFile)
			return err
		},
	}
	c.Flags().StringVar(&dir, "authority", "", authorityHelp)
	c.Flags().StringVar(&out, "out", "", "directory for the new authority, empty or not there")
	return c
}

func certificateRetireCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "retire --authority DIR",
		Short: "Take the authority before out of ca.pem, when every node has a certificate of the new one",
		Long: `Leaves the certificate of the authority whose key is in the folder in its ca.pem, and no other. A node
with a certificate of the authority before is not accepted by nodes that have this file.`,
		Example: `  troupe cluster certificate retire --authority authority-2`,
		Args:    term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := readAuthority(dir)
			if err != nil {
				return term.Misuse(err)
			}
			first, rest := pem.Decode(a.bundle)
			if len(bytes.TrimSpace(rest)) == 0 {
				return term.Misuse(fmt.Errorf("--authority: %s has one authority, none is retired", filepath.Join(dir, caFile)))
			}
			a.bundle = pem.EncodeToMemory(first)
			if err := a.write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: copy %s into the folder of every node, and start one node "+
				"after the other again\n", dir, caFile)
			return err
		},
	}
	c.Flags().StringVar(&dir, "authority", "", authorityHelp)
	return c
}
