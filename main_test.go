package troupe_test

import (
	"testing"

	"troupe/internal/scratch"
)

func TestMain(m *testing.M) { scratch.Main(m) }
