# Sends PUT requests over one connection and prints for each the status and the
# type of the problem. Every argument behind the URL is a request: the lines of
# its field, separated by "|".
use strict;
use warnings;
use HTTP::Tiny;

my ($url, @requests) = @ARGV;
my $client = HTTP::Tiny->new(timeout => 120);
for my $request (@requests) {
    my @lines  = split /\|/, $request;
    my @chunks = ("7", "00", undef);
    my $answer = $client->request('PUT', $url, {
        headers => { @lines ? ('Fencing-Token' => \@lines) : () },
        content => sub { shift @chunks },
    });
    my ($kind) = $answer->{content} =~ /"type":"[^"]*#(\w+)"/;
    print join(' ', $answer->{status}, $kind // '-'), "\n";
}
