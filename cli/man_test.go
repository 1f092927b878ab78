package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestManual: a page says what the command says, and nothing in it is taken for a request.
func TestManual(t *testing.T) {
	root := &cobra.Command{Use: "troupe", Short: "Root"}
	c := &cobra.Command{Use: "log FILE", Short: "Read a_log", Run: func(*cobra.Command, []string) {}, Example: "  troupe log a\\b",
		Long: "One *paragraph* of\n.two lines.\n\n'Another:\n  as it\n  stands\nand on.\n"}
	c.AddCommand(&cobra.Command{Use: "dump", Short: "Dump", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(c)
	c.Flags().StringP("out", "o", "x-y", "where to")
	c.Flags().Bool("all", false, ".all of it")
	c.Flags().Int("secret", 0, "not for you")
	if err := c.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	want := `.TH "TROUPE-LOG" "1" "" "troupe ` + version + `" "troupe"
.nh
.ad l
.SH NAME
troupe\-log \- Read a_log
.SH SYNOPSIS
\fBtroupe log FILE [flags]\fP
.SH DESCRIPTION
One *paragraph* of
\&.two lines.
.PP
\&'Another:
.EX
  as it
  stands
.EE
and on.
.SH OPTIONS
.TP
\fB\-\-all\fP[=false]
\&.all of it
.TP
\fB\-h\fP, \fB\-\-help\fP[=false]
help for log
.TP
\fB\-o\fP, \fB\-\-out\fP="x\-y"
where to
.SH EXAMPLE
.EX
  troupe log a\eb
.EE
.SH SEE ALSO
\fBtroupe\fP(1), \fBtroupe\-log\-dump\fP(1)
`
	if diff := cmp.Diff(want, manual(c)); diff != "" {
		t.Error(diff)
	}
}
