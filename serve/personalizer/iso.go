package personalizer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

var isoForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^P(?:(\d{1,4})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?$`)
})

// parseISODuration reads days, hours, minutes and seconds of ISO 8601.
func parseISODuration(s string) (time.Duration, bool) {
	m := isoForm().FindStringSubmatch(s)
	if m == nil || strings.HasSuffix(s, "P") || strings.HasSuffix(s, "T") {
		return 0, false
	}
	var d time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.ParseInt("0"+m[i+1], 10, 64)
		d += time.Duration(n) * unit
	}
	if m[5] != "" {
		n, _ := strconv.ParseInt((m[5] + "000000000")[:9], 10, 64)
		d += time.Duration(n)
	}
	return d, true
}

// isoDuration writes a duration like PT1H30M.
func isoDuration(d time.Duration) string {
	if d == 0 {
		return "PT0S"
	}
	s := "PT"
	if h := d / time.Hour; h > 0 {
		s += fmt.Sprintf("%dH", h)
	}
	if m := d % time.Hour / time.Minute; m > 0 {
		s += fmt.Sprintf("%dM", m)
	}
	if sec := (d % time.Minute).Seconds(); sec > 0 {
		s += strconv.FormatFloat(sec, 'f', -1, 64) + "S"
	}
	return s
}
