package serverproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate makes a self-signed certificate of 127.0.0.1, and returns the files of the
// certificate and of its key. They are removed at the end of the test. The key's file
// belongs to the user that runs the local servers, and other users cannot read it:
// PostgreSQL requires that.
func Certificate(t testing.TB) (cert, key string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "certificate-") //nolint:usetesting // other users may not enter t.TempDir
	if err != nil {
		t.Fatalf("serverproc: certificate: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if cert, key, err = Certify(folder); err != nil {
		t.Fatalf("serverproc: certificate: %v", err)
	}
	return cert, key
}

// Certify makes the files of [Certificate] in folder.
func Certify(folder string) (cert, key string, err error) {
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	return cert, key, certify(folder, cert, key)
}

func certify(folder, cert, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o644), //nolint:gosec // public
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	if err != nil {
		return err
	}
	return errors.Join(giveTo(folder), giveTo(key))
}
