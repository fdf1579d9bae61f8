# Appends to strings that are found by key.
my %h;
$h{"key" . ($_ * 7919 % 300007)} .= "value $_," for 1 .. 600000;
my $n = 0;
$n += length for values %h;
print scalar(keys %h), " $n\n";
