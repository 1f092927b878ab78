package fold

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"troupe/rng"
	"troupe/serve/model"
)

// controlConfig is the JSON in the field Config of a control record.
type controlConfig struct {
	Config model.Config `json:"config"`
	Seed   string       `json:"seed,omitempty"` // 32 hexadecimal digits; create only
}

// ControlConfig returns the bytes of a control record's configuration; seed is nil but for a create. It reads
// them back as the fold will, because a record that the fold cannot read stops the server for good.
func ControlConfig(config model.Config, seed *rng.Key) ([]byte, error) {
	x := controlConfig{Config: config}
	if seed != nil {
		x.Seed = encodeSeed(*seed)
	}
	b, err := json.Marshal(x)
	if err != nil {
		return nil, model.ErrorAt("config", err)
	}
	var back controlConfig
	if err := json.Unmarshal(b, &back); err != nil {
		return nil, model.ErrorAt("config", err)
	}
	cfg, err := back.Config.Logged()
	if err != nil {
		return nil, err
	}
	if again, err := json.Marshal(controlConfig{cfg.Config, x.Seed}); err != nil || !bytes.Equal(b, again) {
		return nil, model.Invalid("config", "", "does not read back to itself")
	}
	return b, nil
}

func encodeSeed(k rng.Key) string {
	var b [16]byte
	for i, w := range k {
		b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(w>>24), byte(w>>16), byte(w>>8), byte(w)
	}
	return hex.EncodeToString(b[:])
}

func decodeSeed(s string) (k rng.Key, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return k, fmt.Errorf("a seed has 32 hexadecimal digits")
	}
	for i := range k {
		k[i] = uint32(b[4*i])<<24 | uint32(b[4*i+1])<<16 | uint32(b[4*i+2])<<8 | uint32(b[4*i+3])
	}
	return k, nil
}
